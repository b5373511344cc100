"""Names and texts that are taken for something else where they are not quoted with care. Not here: the tests."""

SECRET = "Geheim-4711"
"""What the environment variable PW holds in such tests; it may be nowhere."""

TEXTS = (
    "${env:PW}",
    "${system:user.name}",
    "${system:PW}",
    "costs ${amount} today",
    "$${env:PW}",
    "${${env:PW}}",
    "{}",
    "{source}",
    "{0}",
    "{c}",
    "{raw}",
    "it's",
    '"double"',
    "`tick`",
    "``",
    "`.`",
    "\\",
    "\\'",
    "\\u0041\\n",
    "'; DROP TABLE x; --",
    "-- a comment",
    "/* a comment */",
    "*/",
    "%s %(a)s 100%",
    "?",
    ":name",
    "a.b.c",
    "a[0]",
    "line\nend\r\n.",
    "\ttab",
    "\x01\x1f",
    "ſ K ı İ Σ ς ß",
    "\u202eright to left",
    "e\u0301 é",
    "日本語",
    "_op",
    "SELECT",
    "*",
    " space first",
    "x" * 64,
)
"""Texts that are names too: the server allows these in names, as they are or cut at 64 letters."""

VALUES = (*TEXTS, "", "\0", "a\0b", "'", "😀 ${env:PW} 😀", "\ufeff", "\ufffd", "space last ")
"""Texts that only values may be."""

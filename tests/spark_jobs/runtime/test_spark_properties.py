"""Settings that Java reads from a file, which is this user's alone."""

import subprocess
from pathlib import Path

import pytest

from spark_jobs.runtime.spark_properties import write_properties


def test_settings_are_read_by_java_as_they_are(tmp_path: Path) -> None:
    program, settings = tmp_path / "Show.java", tmp_path / "settings"
    program.write_text("""
        public class Show {
            public static void main(String[] files) throws Exception {
                var read = new java.util.Properties();
                read.load(new java.io.InputStreamReader(new java.io.FileInputStream(files[0]), "UTF-8"));
                var out = new java.io.PrintStream(System.out, true, "UTF-8");
                for (var name : read.stringPropertyNames()) out.print(name + "\\0" + read.getProperty(name) + "\\0");
            }
        }
    """)
    texts = ["plain", "a b", r"C:\dir", "a=b:c", "# ! ", "two\nlines\ttab", "ä€", ""]
    write_properties(settings, {f"a key {text}": text for text in texts})
    ended = subprocess.run(["java", str(program), str(settings)], capture_output=True, check=True)
    words = ended.stdout.decode().split("\0")[:-1]
    assert dict(zip(words[::2], words[1::2], strict=True)) == {f"a key {text}": text for text in texts}


def test_the_file_is_one_users_and_no_link_is_followed(tmp_path: Path) -> None:
    path, link = tmp_path / "settings", tmp_path / "link"
    assert write_properties(path, {"spark.secret": "s3cret"})[-1] == str(path)
    assert path.stat().st_mode & 0o777 == 0o600
    link.symlink_to(path)
    with pytest.raises(OSError, match="link"):
        write_properties(link, {})

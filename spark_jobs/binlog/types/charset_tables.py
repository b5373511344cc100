"""Tables of MySQL's and MariaDB's character sets, as a server shows them.

COLLATIONS: INFORMATION_SCHEMA.COLLATIONS of MySQL 8.0, with the ids of later versions (utf8mb4 up to 323) and MariaDB's
(576 to 739, NOPAD collations 1024 above their twins, UCA 14.0.0 from 2048: strings/ctype-uca1400.h).
The upper halves were asked of a server: ``SELECT CONVERT(_latin1 X'80' USING utf8mb4)`` … ; U+FFFD is a byte without a
character. Python's codecs of the same names differ in hebrew, greek, koi8u, cp866, cp1256 and latin1.
Multi-byte sets are too large to write down: they are Python's codecs and what these have otherwise.

Put here: tables. Not here: what is done with them (charsets.py).
"""

# ruff: noqa: E501  # a table of 128 characters reads best in one line

COLLATIONS: dict[str, tuple[range, ...]] = {
    "armscii8": (
        range(32, 33),
        range(64, 65),
    ),
    "ascii": (
        range(11, 12),
        range(65, 66),
    ),
    "big5": (
        range(1, 2),
        range(84, 85),
    ),
    "binary": (range(63, 64),),
    "cp1250": (
        range(26, 27),
        range(34, 35),
        range(44, 45),
        range(66, 67),
        range(99, 100),
    ),
    "cp1251": (
        range(14, 15),
        range(23, 24),
        range(50, 53),
    ),
    "cp1256": (
        range(57, 58),
        range(67, 68),
    ),
    "cp1257": (
        range(29, 30),
        range(58, 60),
    ),
    "cp850": (
        range(4, 5),
        range(80, 81),
    ),
    "cp852": (
        range(40, 41),
        range(81, 82),
    ),
    "cp866": (
        range(36, 37),
        range(68, 69),
    ),
    "cp932": (range(95, 97),),
    "dec8": (
        range(3, 4),
        range(69, 70),
    ),
    "eucjpms": (range(97, 99),),
    "euckr": (
        range(19, 20),
        range(85, 86),
    ),
    "gb18030": (range(248, 251),),
    "gb2312": (
        range(24, 25),
        range(86, 87),
    ),
    "gbk": (
        range(28, 29),
        range(87, 88),
    ),
    "geostd8": (range(92, 94),),
    "greek": (
        range(25, 26),
        range(70, 71),
    ),
    "hebrew": (
        range(16, 17),
        range(71, 72),
    ),
    "hp8": (
        range(6, 7),
        range(72, 73),
    ),
    "keybcs2": (
        range(37, 38),
        range(73, 74),
    ),
    "koi8r": (
        range(7, 8),
        range(74, 75),
    ),
    "koi8u": (
        range(22, 23),
        range(75, 76),
    ),
    "latin1": (
        range(5, 6),
        range(8, 9),
        range(15, 16),
        range(31, 32),
        range(47, 50),
        range(94, 95),
    ),
    "latin2": (
        range(2, 3),
        range(9, 10),
        range(21, 22),
        range(27, 28),
        range(77, 78),
    ),
    "latin5": (
        range(30, 31),
        range(78, 79),
    ),
    "latin7": (
        range(20, 21),
        range(41, 43),
        range(79, 80),
    ),
    "macce": (
        range(38, 39),
        range(43, 44),
    ),
    "macroman": (
        range(39, 40),
        range(53, 54),
    ),
    "sjis": (
        range(13, 14),
        range(88, 89),
    ),
    "swe7": (
        range(10, 11),
        range(82, 83),
    ),
    "tis620": (
        range(18, 19),
        range(89, 90),
    ),
    "ucs2": (
        range(35, 36),
        range(90, 91),
        range(128, 152),
        range(159, 160),
        range(640, 643),
        range(2560, 2816),
    ),
    "ujis": (
        range(12, 13),
        range(91, 92),
    ),
    "utf16": (
        range(54, 56),
        range(101, 125),
        range(672, 675),
        range(2816, 3072),
    ),
    "utf16le": (
        range(56, 57),
        range(62, 63),
    ),
    "utf32": (
        range(60, 62),
        range(160, 184),
        range(736, 739),
        range(3072, 3328),
    ),
    "utf8mb3": (
        range(33, 34),
        range(76, 77),
        range(83, 84),
        range(192, 216),
        range(223, 224),
        range(576, 580),
        range(2048, 2304),
    ),
    "utf8mb4": (
        range(45, 47),
        range(224, 248),
        range(255, 324),
        range(608, 612),
        range(2304, 2560),
    ),
}

NOPAD = 1024
"""MariaDB: a collation's id plus this is its NOPAD twin."""

WIDTHS: dict[str, int] = {
    "big5": 2,
    "cp932": 2,
    "eucjpms": 3,
    "euckr": 2,
    "gb18030": 4,
    "gb2312": 2,
    "gbk": 2,
    "sjis": 2,
    "ucs2": 2,
    "ujis": 3,
    "utf16": 4,
    "utf16le": 4,
    "utf32": 4,
    "utf8mb3": 3,
    "utf8mb4": 4,
}
"""The most bytes of a character, where it is not 1."""

CODECS: dict[str, str] = {
    "big5": "big5",
    "cp932": "cp932",
    "eucjpms": "euc_jp",
    "euckr": "cp949",
    "gb18030": "gb18030",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
}
"""The codec of Python that has most of a multi-byte set's characters right; EXCEPTIONS has the others."""

UTF: dict[str, tuple[int, bool, bool]] = {
    "ucs2": (2, True, False),
    "utf16": (2, True, True),
    "utf16le": (2, False, True),
    "utf32": (4, True, False),
}
"""Bytes of a unit, whether the highest comes first, and whether surrogates make pairs. No set has single surrogates."""


def _ranges(*parts: tuple[int, str]) -> dict[int, str]:
    """Consecutive codes and their characters; U+FFFD: a code without a character."""
    return {first + index: letter for first, letters in parts for index, letter in enumerate(letters)}


_IBM = "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤﨎咊坙﨏塚增寬峵嵓﨑德悅愠敎昻晥晴朗栁﨓﨔橫櫢淸淲瀨凞猪甁皂皞益礰礼神祥福竧靖精綠緖羽荢﨟薰蘒﨡蠇諸譿賴赶﨣﨤逸郞都鄕﨧﨨閒隆﨩霻靍靑飯飼館馞髙魲鶴黑"
"""Characters of eucjpms in rows 83 and 84 of its second plane, from cell 83 on: IBM's extensions."""
_CP932_HOLES = _ranges(*((byte, "\ufffd") for byte in (0x80, 0xA0, 0xFD, 0xFE, 0xFF)))
_BIG5 = _ranges(
    *((code, "\ufffd") for code in (0xA15A, 0xA1C3, 0xA1C5, 0xA1FE, 0xA240, 0xA2CC, 0xA2CE)), (0xF9D6, "碁銹裏墻恒粧嫺")
)

EXCEPTIONS: dict[str, dict[int, str]] = {
    "big5": _BIG5,
    "cp932": _CP932_HOLES,
    "eucjpms": _ranges((0x8FA2B7, "～"), (0x8FA2C3, "￤"), (0x8FF3F3, _IBM[:12]), (0x8FF4A1, _IBM[12:])),
    "gb18030": _ranges((0xA8BC, "\u1e3f"), (0x8135F437, "\ue7c7")),
    "sjis": _ranges((0x815F, "\\")),
    "ujis": _ranges((0xA1C0, "\\")),
}
"""Characters that servers have and Python's codec has not, or otherwise: code (its bytes, big-endian) to character.

All sequences of one, two and three bytes were compared with MySQL 8.0.12 and MariaDB 11.4, which agree, and those of
four in gb18030's Basic Multilingual Plane. The user-defined rows of ujis and eucjpms, 85 to 94, are left out here.
"""

_ASCII = "".join(map(chr, range(128)))
_SWE7 = _ASCII.translate(str.maketrans("@[\\]^`{|}~\x7f", "ÉÄÖÅÜéäöåü\ufffd"))

SINGLE_BYTE: dict[str, str] = {
    "armscii8": _ASCII
    + "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'",
    "ascii": _ASCII + "\ufffd" * 128,
    "cp1250": _ASCII
    + "€\ufffd‚\ufffd„…†‡\ufffd‰Š‹ŚŤŽŹ\ufffd‘’“”•–—\ufffd™š›śťžź\xa0ˇ˘Ł¤Ą¦§¨©Ş«¬\xad®Ż°±˛ł´µ¶·¸ąş»Ľ˝ľżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙",
    "cp1251": _ASCII
    + "ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—\ufffd™љ›њќћџ\xa0ЎўЈ¤Ґ¦§Ё©Є«¬\xad®Ї°±Ііґµ¶·ё№є»јЅѕїАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя",
    "cp1256": _ASCII
    + "€پ‚ƒ„…†‡ˆ‰\ufffd‹Œچژ\ufffdگ‘’“”•–—\ufffd™\ufffd›œ\u200c\u200d\ufffd\xa0،¢£¤¥¦§¨©\ufffd«¬\xad®¯°±²³´µ¶·¸¹؛»¼½¾؟\ufffdءآأؤإئابةتثجحخدذرزسشصض×طظعغـفقكàلâمنهوçèéêëىيîïًٌٍَôُِ÷ّùْûü\u200e\u200f\ufffd",
    "cp1257": _ASCII
    + "€\ufffd‚\ufffd„…†‡\ufffd‰\ufffd‹\ufffd¨ˇ¸\ufffd‘’“”•–—\ufffd™\ufffd›\ufffd¯˛\ufffd\xa0\ufffd¢£¤\ufffd¦§Ø©Ŗ«¬\xad®Æ°±²³´µ¶·ø¹ŗ»¼½¾æĄĮĀĆÄÅĘĒČÉŹĖĢĶĪĻŠŃŅÓŌÕÖ×ŲŁŚŪÜŻŽßąįāćäåęēčéźėģķīļšńņóōõö÷ųłśūüżž˙",
    "cp850": _ASCII
    + "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐└┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀ÓßÔÒõÕµþÞÚÛÙýÝ¯´\xad±‗¾¶§÷¸°¨·¹³²■\xa0",
    "cp852": _ASCII
    + "ÇüéâäůćçłëŐőîŹÄĆÉĹĺôöĽľŚśÖÜŤťŁ×čáíóúĄąŽžĘę¬źČş«»░▒▓│┤ÁÂĚŞ╣║╗╝Żż┐└┴┬├─┼Ăă╚╔╩╦╠═╬¤đĐĎËďŇÍÎě┘┌█▄ŢŮ▀ÓßÔŃńňŠšŔÚŕŰýÝţ´\xad˝˛ˇ˘§÷¸°¨˙űŘř■\xa0",
    "cp866": _ASCII
    + "АБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмноп░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀рстуфхцчшщъыьэюяЁёЄєЇїЎў°∙·√ⁿ²■\xa0",
    "dec8": _ASCII
    + "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0¡¢£\ufffd¥\ufffd§¤©ª«\ufffd\ufffd\ufffd\ufffd°±²³\ufffdµ¶·\ufffd¹º»¼½\ufffd¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏ\ufffdÑÒÓÔÕÖŒØÙÚÛÜŸ\ufffdßàáâãäåæçèéêëìíîï\ufffdñòóôõöœøùúûüÿ\ufffd\ufffd",
    "geostd8": _ASCII
    + "€\ufffd‚\ufffd„…†‡\ufffd‰\ufffd‹\ufffd\ufffd\ufffd\ufffd\ufffd‘’“”•–—\ufffd\ufffd\ufffd›\ufffd\ufffd\ufffd\ufffd\xa0¡¢£¤¥¦§¨©ª«¬\xad®¯°±²³´µ¶·¸¹º»¼½¾¿აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯჰჵ\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd№\ufffd\ufffd",
    "greek": _ASCII
    + "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0ʽʼ£\ufffd\ufffd¦§¨©\ufffd«¬\xad\ufffd―°±²³΄΅Ά·ΈΉΊ»Ό½ΎΏΐΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡ\ufffdΣΤΥΦΧΨΩΪΫάέήίΰαβγδεζηθικλμνξοπρςστυφχψωϊϋόύώ\ufffd",
    "hebrew": _ASCII
    + "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0\ufffd¢£¤¥¦§¨©×«¬\xad®‾°±²³´µ¶·¸¹÷»¼½¾\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd‗אבגדהוזחטיךכלםמןנסעףפץצקרשת\ufffd\ufffd\u200e\u200f\ufffd",
    "hp8": _ASCII
    + "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0ÀÂÈÊËÎÏ´ˋˆ¨˜ÙÛ₤¯Ýý°ÇçÑñ¡¿¤£¥§ƒ¢âêôûáéóúàèòùäëöüÅîØÆåíøæÄìÖÜÉïßÔÁÃãÐðÍÌÓÒÕõŠšÚŸÿÞþ·µ¶¾—¼½ªº«■»±\ufffd",
    "keybcs2": _ASCII
    + "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0",
    "koi8r": _ASCII
    + "─│┌┐└┘├┤┬┴┼▀▄█▌▐░▒▓⌠■∙√≈≤≥\xa0⌡°²·÷═║╒ё╓╔╕╖╗╘╙╚╛╜╝╞╟╠╡Ё╢╣╤╥╦╧╨╩╪╫╬©юабцдефгхийклмнопярстужвьызшэщчъЮАБЦДЕФГХИЙКЛМНОПЯРСТУЖВЬЫЗШЭЩЧЪ",
    "koi8u": _ASCII
    + "─│┌┐└┘├┤┬┴┼▀▄█▌▐░▒▓⌠■•√≈≤≥\xa0⌡°²·÷═║╒ёє╔ії╗╘╙╚╛ґ╝╞╟╠╡ЁЄ╣ІЇ╦╧╨╩╪Ґ╬©юабцдефгхийклмнопярстужвьызшэщчъЮАБЦДЕФГХИЙКЛМНОПЯРСТУЖВЬЫЗШЭЩЧЪ",
    "latin1": _ASCII
    + "€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ\xa0¡¢£¤¥¦§¨©ª«¬\xad®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ",
    "latin2": _ASCII
    + "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0Ą˘Ł¤ĽŚ§¨ŠŞŤŹ\xadŽŻ°ą˛ł´ľśˇ¸šşťź˝žżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙",
    "latin5": _ASCII
    + "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0¡¢£¤¥¦§¨©ª«¬\xad®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏĞÑÒÓÔÕÖ×ØÙÚÛÜİŞßàáâãäåæçèéêëìíîïğñòóôõö÷øùúûüışÿ",
    "latin7": _ASCII
    + "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0”¢£¤„¦§Ø©Ŗ«¬\xad®Æ°±²³“µ¶·ø¹ŗ»¼½¾æĄĮĀĆÄÅĘĒČÉŹĖĢĶĪĻŠŃŅÓŌÕÖ×ŲŁŚŪÜŻŽßąįāćäåęēčéźėģķīļšńņóōõö÷ųłśūüżž’",
    "macce": _ASCII
    + "ÄĀāÉĄÖÜáąČäčĆćéŹźĎíďĒēĖóėôöõúĚěü†°Ę£§•¶ß®©™ę¨≠ģĮįĪ≤≥īĶ∂∑łĻļĽľĹĺŅņŃ¬√ńŇ∆«»…\xa0ňŐÕőŌ–—“”‘’÷◊ōŔŕŘ‹›řŖŗŠ‚„šŚśÁŤťÍŽžŪÓÔūŮÚůŰűŲųÝýķŻŁżĢˇ",
    "macroman": _ASCII
    + "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈∆«»…\xa0ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\uf8ffÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ",
    "swe7": _SWE7 + "\ufffd" * 128,
    "tis620": _ASCII
    + "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\ufffdกขฃคฅฆงจฉชซฌญฎฏฐฑฒณดตถทธนบปผฝพฟภมยรฤลฦวศษสหฬอฮฯะัาำิีึืฺุู\ufffd\ufffd\ufffd\ufffd฿เแโใไๅๆ็่้๊๋์ํ๎๏๐๑๒๓๔๕๖๗๘๙๚๛\ufffd\ufffd\ufffd\ufffd",
}
"""The character of each byte."""

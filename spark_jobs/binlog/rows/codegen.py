"""Machine code for the usual rows of one table: what decode_rows does with them, without a choice at each value.

decode_rows asks at every value what is to be done with it, and that jump takes longer than to do it. A table of which
millions of rows come is worth code of its own. It is made in LLVM's own language, since numba takes a second or more to
compile as much, and not optimised: LLVM's optimizer takes twice the time and gains nothing here.

The code stops before any row that is not usual: a date that no calendar has, digits that are none, a NULL where none
may be, a row that ends beyond its event. decode_rows takes that row, and so it alone says what is wrong.

Put here: the code of rows and of each kind of value. Not here: what kinds mean (kernels/row_cells.py), when it runs
(blocks.py).
"""

# mypy: disable-error-code="no-untyped-call"
# llvmlite's functions have no types.

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from spark_jobs.binlog import kernels

_WORD, _BYTE, _BIT = ir.IntType(64), ir.IntType(8), ir.IntType(1)
_VECTOR = ir.VectorType(_BYTE, 32)
_AHEAD, _TEXT_AHEAD = 256, 512
"""Bytes beyond what is written now that are asked for: a table of 50 columns writes to a hundred places by turns, more
than a processor sees coming, and half of all time was waiting for memory that would be written over."""
_UNCHECKED = 48
"""Bytes of values that may be read before the event's end is asked for; 64 after it are readable."""


@dataclass(frozen=True, slots=True)
class ColumnStep:
    """Step for one column: the cells of a kernel's step that do not depend on the block."""

    kind: int
    width: int
    parameters: tuple[int, ...]
    nullable: bool

    @property
    def is_text(self) -> bool:
        return kernels.TEXT_1 <= self.kind <= kernels.PADDED


@dataclass(frozen=True, slots=True)
class Code:
    """Addresses of the functions for rows of one image and for updates; ``engine`` owns their memory."""

    row: int
    update: int
    engine: Any


@lru_cache(maxsize=512)
def code_of(row: tuple[ColumnStep, ...], before: tuple[ColumnStep, ...]) -> Code:
    """The code for a table whose rows and before images are read by these steps."""
    module = ir.Module("rows")
    _Function(module, "row", [(0, row)])
    _Function(module, "update", [(1, before), (0, row)])
    engine = _compiled(str(module))
    return Code(engine.get_function_address("row"), engine.get_function_address("update"), engine)


def _compiled(source: str) -> Any:
    features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(llvm.get_host_cpu_name(), features, opt=1)
    module = llvm.parse_assembly(source)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


class _Function:
    """``void name(q, end, n, rows, steps, nulls, null_rows, state)``, all int64; see kernels.decode_rows.

    Fills rows from ``n`` on out of the bytes [q, end) while there are usual ones and fewer than ``rows``; tells in
    ``state`` how many are filled and where the next begins, and in ``steps`` how much text they had.
    """

    def __init__(self, module: ir.Module, name: str, images: list[tuple[int, tuple[ColumnStep, ...]]]) -> None:
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_WORD] * 8), name)
        self.columns = len(images[0][1])
        self.words = (self.columns + 63) // 64
        self.builder = b = ir.IRBuilder(function.append_basic_block("entry"))
        start, self.end, first, rows, self.steps, self.nulls, self.null_rows, state = function.args
        # Ends of text are kept in registers while the function runs.
        texts = [(program, c) for program, steps in images for c, step in enumerate(steps) if step.is_text]
        filled = {text: self.load(64, self._cell(*text, kernels.STEP_USED)) for text in texts}
        entry, head, body = b.block, function.append_basic_block("head"), function.append_basic_block("body")
        self.leave = function.append_basic_block("leave")
        b.branch(head)

        # The loop continues while there is a row and room for it.
        b.position_at_end(head)
        phis = {text: self._phi(entry, filled[text]) for text in texts}
        q, self.n = self._phi(entry, start), self._phi(entry, first)
        has_more = b.and_(b.icmp_signed("<", self.n, rows), b.icmp_unsigned("<", q, self.end))
        b.cbranch(has_more, body, self.leave)

        # A row: the images one after the other, each from where the one before it ended.
        b.position_at_end(body)
        self.filled: dict[tuple[int, int], Any] = dict(phis)
        offset: Any = q
        for program, steps in images:
            offset = self._image(program, steps, offset)
        for text in texts:
            phis[text].add_incoming(self.filled[text], b.block)
        q.add_incoming(offset, b.block)
        self.n.add_incoming(self.add(self.n, 1), b.block)
        b.branch(head)

        # What is left of the state, for the caller and the next call.
        b.position_at_end(self.leave)
        for text in texts:
            self.store(phis[text], self._cell(*text, kernels.STEP_USED))
        self.store(self.n, self.add(state, 8 * kernels.R_ROWS))
        self.store(q, self.add(state, 8 * kernels.R_OFFSET))
        b.ret_void()

    def _phi(self, block: Any, value: Any) -> Any:
        phi = self.builder.phi(_WORD)
        phi.add_incoming(value, block)
        return phi

    def _cell(self, program: int, column: int, cell: int) -> Any:
        return self.add(self.steps, (program * self.columns + column) * kernels.STEP_BYTES + 8 * cell)

    def _image(self, program: int, steps: tuple[ColumnStep, ...], q: Any) -> Any:
        """Code of one image; returns where the next begins."""
        b = self.builder
        # Null bits of a row stand in words of 64, for both images one after the other.
        row = b.add(self.n, self.null_rows) if program else self.n
        nulls = b.add(self.nulls, b.mul(row, self.word(8 * self.words)))
        bitmap, q = q, self.add(q, (self.columns + 7) // 8)
        self.leave_if(b.icmp_unsigned(">", q, self.end))
        unchecked = 0
        word: Any = None
        for c, step in enumerate(steps):
            # A word of null bits at a time; a NULL in a column that cannot be NULL ends the generated code.
            if c & 63 == 0:
                word = self.load(64, self.add(bitmap, c // 8))
                self.store(word, self.add(nulls, c // 8))
                never = sum(1 << k for k, step in enumerate(steps[c : c + 64]) if not step.nullable)
                self.leave_if(b.icmp_unsigned("!=", b.and_(word, self.word(never)), self.word(0)))
            # Bounds are checked after a few columns of fixed size, and after each of variable size.
            if unchecked + 16 > _UNCHECKED:
                self.leave_if(b.icmp_unsigned(">", q, self.end))
                unchecked = 0
            q = self._column(program, c, step, q, word)
            if step.kind >= kernels.SKIP_1 or step.kind in (kernels.SKIP, kernels.COPY_N):
                self.leave_if(b.icmp_unsigned(">", q, self.end))
                unchecked = 0
            else:
                unchecked = 0 if step.is_text else unchecked + 16
        self.leave_if(b.icmp_unsigned(">", q, self.end))
        return q

    def _column(self, program: int, c: int, step: ColumnStep, q: Any, word: Any) -> Any:
        """Code of one column, for a value and for a NULL; returns where the next begins."""
        b = self.builder
        before = self.filled.get((program, c))
        slot = self.load(64, self._cell(program, c, kernels.STEP_SLOT))
        at = b.add(slot, b.mul(self.n, self.word(4 if step.is_text else step.width)))
        if step.kind != kernels.SKIP and step.kind < kernels.SKIP_1:
            self.prefetch(self.add(at, _AHEAD))
        # Columns that are never NULL need no branch.
        if not step.nullable:
            return self._value_code(program, c, step, q, at)
        absent, present, after = (b.append_basic_block(name) for name in ("absent", "present", "after"))
        is_null = b.trunc(b.lshr(word, self.word(c & 63)), _BIT)
        b.cbranch(is_null, absent, present)
        # A NULL text ends where it begins, and a NULL number is 0: slots hold no bytes of an earlier row.
        b.position_at_end(absent)
        if before is not None:
            self.store(b.trunc(before, ir.IntType(32)), at)
        elif kernels.SKIP < step.kind < kernels.TEXT_1:
            self.store(ir.Constant(ir.IntType(8 * step.width), 0), at)
        b.branch(after)
        b.position_at_end(present)
        offset = self._value_code(program, c, step, q, at)
        filled = b.block
        b.branch(after)
        # Either way the text's end and the offset in the row continue from here.
        b.position_at_end(after)
        if before is not None:
            filled_columns = self._phi(absent, before)
            filled_columns.add_incoming(self.filled[program, c], filled)
            self.filled[program, c] = filled_columns
        merged = self._phi(absent, q)
        merged.add_incoming(offset, filled)
        return merged

    def _value_code(self, program: int, c: int, step: ColumnStep, q: Any, at: Any) -> Any:
        if step.is_text:
            offset, self.filled[program, c] = self._text_code(step, q, at, self.filled[program, c], (program, c))
            return offset
        return _VALUES[step.kind](self, q, at, *step.parameters)

    def _text_code(self, step: ColumnStep, q: Any, at: Any, filled: Any, text: tuple[int, int]) -> tuple[Any, Any]:
        """Code of a value of variable length; returns what follows it, in the log and in the text."""
        b = self.builder
        # The length, of one to four bytes, then the bytes themselves.
        size = 1 if step.kind == kernels.PADDED else step.kind - kernels.TEXT_1 + 1
        length = self.little(q, size)
        source = self.add(q, size)
        after = b.add(source, length)
        self.leave_if(b.icmp_unsigned(">", after, self.end))
        self.store(b.trunc(filled, ir.IntType(32)), at)
        target = b.add(self.load(64, self._cell(*text, kernels.STEP_TEXT)), filled)
        self.prefetch(self.add(target, _TEXT_AHEAD))
        if step.kind == kernels.PADDED:
            room = self.word(step.parameters[0])
            self.leave_if(b.icmp_unsigned(">", length, room))
            self.copy(target, source, length)
            self.clear(b.add(target, length), b.sub(room, length))
            return after, b.add(filled, room)
        self.copy(target, source, length)
        return after, b.add(filled, length)

    # What the code is made of.

    def word(self, number: int) -> Any:
        return ir.Constant(_WORD, number)

    def add(self, value: Any, number: int) -> Any:
        return self.builder.add(value, self.word(number))

    def pointer(self, address: Any, kind: Any) -> Any:
        """An address as LLVM wants it."""
        return self.builder.inttoptr(address, kind.as_pointer())

    def load(self, bits: int, address: Any) -> Any:
        """A number that needs no alignment, as a word."""
        value = self.builder.load(self.pointer(address, ir.IntType(bits)))
        value.align = 1
        return value if bits == 64 else self.builder.zext(value, _WORD)

    def load_big(self, bits: int, address: Any) -> Any:
        value = self.builder.load(self.pointer(address, ir.IntType(bits)))
        value.align = 1
        swapped = self.builder.bswap(value)
        return swapped if bits == 64 else self.builder.zext(swapped, _WORD)

    def little(self, address: Any, size: int) -> Any:
        """A number of 1 to 8 bytes: those of a power of two, and what is left, put together."""
        power = 1 << (size.bit_length() - 1)
        value = self.load(8 * power, address)
        if size == power:
            return value
        rest = self.little(self.add(address, power), size - power)
        return self.builder.or_(value, self.builder.shl(rest, self.word(8 * power)))

    def store(self, value: Any, address: Any) -> None:
        self.builder.store(value, self.pointer(address, value.type)).align = 1

    def narrow(self, value: Any, bits: int, address: Any) -> None:
        """Stores a word's low bits."""
        self.store(value if bits == 64 else self.builder.trunc(value, ir.IntType(bits)), address)

    def leave_if(self, condition: Any) -> None:
        """Leaves the row to decode_rows."""
        onward = self.builder.append_basic_block("usual")
        self.builder.cbranch(condition, self.leave, onward).set_weights([1, 1000])
        self.builder.position_at_end(onward)

    def copy(self, target: Any, source: Any, length: Any) -> None:
        """Copies in whole vectors: up to 31 bytes behind both may be touched."""
        b = self.builder
        before = b.block
        loop, onward = b.append_basic_block("copy"), b.append_basic_block("copied")
        b.branch(loop)
        b.position_at_end(loop)
        offset = self._phi(before, self.word(0))
        value = b.load(self.pointer(b.add(source, offset), _VECTOR))
        value.align = 1
        self.store(value, b.add(target, offset))
        following = self.add(offset, 32)
        offset.add_incoming(following, loop)
        b.cbranch(b.icmp_unsigned("<", following, length), loop, onward)
        b.position_at_end(onward)

    def prefetch(self, address: Any) -> None:
        """Asks for a cache line that will be written to."""
        byte, number = _BYTE.as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = self.builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        to_write, locality, of_data = (ir.Constant(number, value) for value in (1, 3, 1))
        self.builder.call(function, [self.pointer(address, _BYTE), to_write, locality, of_data])

    def clear(self, target: Any, length: Any) -> None:
        memset = self.builder.module.declare_intrinsic("llvm.memset", [_BYTE.as_pointer(), _WORD])
        arguments = [self.pointer(target, _BYTE), ir.Constant(_BYTE, 0), length, ir.Constant(_BIT, 0)]
        self.builder.call(memset, arguments)


_Value = Callable[..., Any]
"""(function, address of the value, address of its slot, the kind's parameters) -> address after the value."""


def _integer_code(size: int, bits: int) -> _Value:
    """Little-endian bytes into a slot of at least as many bits, zeros above."""

    def emit(f: _Function, q: Any, at: Any, *_: int) -> Any:
        value = f.little(q, size)
        if bits == 128:
            f.store(f.builder.zext(value, ir.IntType(128)), at)
        else:
            f.narrow(value, bits, at)
        return f.add(q, size)

    return emit


def _int24(f: _Function, q: Any, at: Any, *_: int) -> Any:
    high = f.builder.shl(f.little(q, 3), f.word(40))
    f.narrow(f.builder.ashr(high, f.word(40)), 32, at)
    return f.add(q, 3)


def _sized_little(f: _Function, q: Any, at: Any, size: int, *_: int) -> Any:
    return _integer_code(size, 64)(f, q, at)


def _sized_big(bits: int) -> _Value:
    def emit(f: _Function, q: Any, at: Any, size: int, *_: int) -> Any:
        value = f.builder.lshr(f.load_big(64, q), f.word(64 - 8 * size))
        f.store(f.builder.zext(value, ir.IntType(128)) if bits == 128 else value, at)
        return f.add(q, size)

    return emit


def _year(f: _Function, q: Any, at: Any, *_: int) -> Any:
    b = f.builder
    year = f.load(8, q)
    f.narrow(b.select(b.icmp_unsigned("==", year, f.word(0)), year, f.add(year, 1900)), 16, at)
    return f.add(q, 1)


def _field(f: _Function, packed: Any, shift: int, bits: int) -> Any:
    return f.builder.and_(f.builder.lshr(packed, f.word(shift)), f.word((1 << bits) - 1))


def _days(f: _Function, month: Any, day: Any) -> Any:
    """Days since 1970 of a day in a month counted as kernels.MONTH_START has it; leaves where there is none such."""
    b = f.builder
    starts, lengths = kernels.CALENDAR
    f.leave_if(b.icmp_unsigned(">", day, f.load(8, f.add(month, lengths))))
    f.leave_if(b.icmp_unsigned("==", day, f.word(0)))
    start = b.trunc(f.load(32, f.add(b.shl(month, f.word(2)), starts)), ir.IntType(32))
    return b.add(b.sext(start, _WORD), day)


def _date(f: _Function, q: Any, at: Any, *_: int) -> Any:
    b = f.builder
    packed = f.little(q, 3)
    month, year = _field(f, packed, 5, 4), _field(f, packed, 9, 15)
    f.leave_if(b.or_(b.icmp_unsigned(">", month, f.word(12)), b.icmp_unsigned(">", year, f.word(9999))))
    f.narrow(_days(f, b.add(b.mul(year, f.word(13)), month), _field(f, packed, 0, 5)), 32, at)
    return f.add(q, 3)


def _fraction(f: _Function, bits: Any, size: int, unit: int) -> Any:
    """Microseconds out of the upper bytes of the low 24 bits; leaves where they are a second or more."""
    b = f.builder
    low = b.and_(bits, f.word(0xFFFFFF))
    value = b.mul(b.lshr(low, f.word(24 - 8 * size)), f.word(unit))
    f.leave_if(b.icmp_unsigned(">", value, f.word(999_999)))
    return value


def _datetime(f: _Function, q: Any, at: Any, size: int, *parameters: int) -> Any:
    b, (fraction_size, unit) = f.builder, parameters[:2]
    bits = f.load_big(64, q)
    fraction = _fraction(f, bits, fraction_size, unit)
    packed = b.sub(b.lshr(bits, f.word(24)), f.word(0x8000000000))
    f.leave_if(b.icmp_signed("<", packed, f.word(0)))
    hour, minute, second = _field(f, packed, 12, 5), _field(f, packed, 6, 6), _field(f, packed, 0, 6)
    for part, limit in ((hour, 23), (minute, 59), (second, 59)):
        f.leave_if(b.icmp_unsigned(">", part, f.word(limit)))
    seconds = b.mul(_days(f, b.lshr(packed, f.word(22)), _field(f, packed, 17, 5)), f.word(86400))
    for part, unit_seconds in ((hour, 3600), (minute, 60), (second, 1)):
        seconds = b.add(seconds, b.mul(part, f.word(unit_seconds)))
    f.store(b.add(b.mul(seconds, f.word(1_000_000)), fraction), at)
    return f.add(q, size)


def _timestamp(f: _Function, q: Any, at: Any, size: int, *parameters: int) -> Any:
    b, (fraction_size, unit) = f.builder, parameters[:2]
    bits = f.load_big(64, q)
    seconds = b.lshr(bits, f.word(32))
    fraction = _fraction(f, b.lshr(bits, f.word(8)), fraction_size, unit)
    f.leave_if(b.icmp_unsigned("==", seconds, f.word(0)))
    f.store(b.add(b.mul(seconds, f.word(1_000_000)), fraction), at)
    return f.add(q, size)


def _time(f: _Function, q: Any, at: Any, size: int, *parameters: int) -> Any:
    b, (fraction_size, unit) = f.builder, parameters[:2]
    # A number of so many bytes plus half its range, so that negative times are below zero.
    zero = f.word(0x800000 << (8 * fraction_size))
    number = b.sub(b.lshr(f.load_big(64, q), f.word(64 - 8 * size)), zero)
    negative = b.icmp_signed("<", number, f.word(0))
    magnitude = b.select(negative, b.neg(number), number)
    clock = b.lshr(magnitude, f.word(8 * fraction_size))
    fraction = b.mul(_field(f, magnitude, 0, 8 * fraction_size), f.word(unit))
    # Each part is checked: what no TIME can be ends the generated code, and the plain kernel names it.
    for part, limit in (
        (fraction, 999_999),
        (_field(f, clock, 0, 6), 59),
        (_field(f, clock, 6, 6), 59),
        (clock, (1 << 22) - 1),
    ):
        f.leave_if(b.icmp_unsigned(">", part, f.word(limit)))
    packed = b.or_(b.shl(clock, f.word(24)), fraction)
    f.store(b.select(negative, b.neg(packed), packed), at)
    return f.add(q, size)


def _decimal(bits: int) -> _Value:
    """A sum of groups of digits, in so many bits, into a slot of 128."""

    def emit(f: _Function, q: Any, at: Any, *parameters: int) -> Any:
        size, lead, full_groups, tail, tail_scale, lead_scale = parameters
        b, wide = f.builder, ir.IntType(bits)
        # The sign is the inverted first bit; groups of a negative number are inverted.
        negative = b.icmp_unsigned("<", f.load(8, q), f.word(128))
        flip = b.select(negative, f.word(0xFFFFFFFF), f.word(0))
        groups = [(lead, lead_scale), *[(4, 1_000_000_000)] * full_groups, (tail, tail_scale)]
        value: Any = ir.Constant(wide, 0)
        offset, sign = q, 0x80000000
        # Groups of nine digits in four bytes, the first and the last with fewer.
        for count, scale in groups:
            if not count:
                continue
            raw = b.xor(b.xor(f.load_big(32, offset), f.word(sign)), flip)
            part = b.lshr(raw, f.word(32 - 8 * count))
            f.leave_if(b.icmp_unsigned(">=", part, f.word(scale)))
            value = b.add(b.mul(value, ir.Constant(wide, scale)), part if bits == 64 else b.zext(part, wide))
            offset, sign = f.add(offset, count), 0
        value = b.select(negative, b.neg(value), value)
        f.store(b.sext(value, ir.IntType(128)) if bits == 64 else value, at)
        return f.add(q, size)

    return emit


def _bytes(f: _Function, q: Any, at: Any, size: int, *_: int) -> Any:
    kind = ir.VectorType(_BYTE, size)
    value = f.builder.load(f.pointer(q, kind))
    value.align = 1
    f.store(value, at)
    return f.add(q, size)


def _skip(f: _Function, q: Any, _at: Any, size: int, *_: int) -> Any:
    return f.add(q, size)


def _skip_counted(size: int) -> _Value:
    def emit(f: _Function, q: Any, _at: Any, *_: int) -> Any:
        return f.builder.add(f.add(q, size), f.little(q, size))

    return emit


_VALUES: dict[int, _Value] = {
    kernels.SKIP: _skip,
    **{
        kind: _integer_code(size, 8 * size)
        for kind, size in zip(range(kernels.COPY_1, kernels.COPY_8 + 1), (1, 2, 4, 8), strict=True)
    },
    kernels.UINT8_TO_16: _integer_code(1, 16),
    kernels.UINT16_TO_32: _integer_code(2, 32),
    kernels.UINT32_TO_64: _integer_code(4, 64),
    kernels.UINT64_TO_128: _integer_code(8, 128),
    kernels.INT24_TO_32: _int24,
    kernels.UINT24_TO_32: _integer_code(3, 32),
    kernels.LITTLE_TO_64: _sized_little,
    kernels.BIG_TO_64: _sized_big(64),
    kernels.BIG_TO_128: _sized_big(128),
    kernels.YEAR_TO_16: _year,
    kernels.DATE_TO_32: _date,
    kernels.DATETIME_TO_64: _datetime,
    kernels.TIMESTAMP_TO_64: _timestamp,
    kernels.TIME_TO_64: _time,
    kernels.DECIMAL_18: _decimal(64),
    kernels.DECIMAL_38: _decimal(128),
    kernels.COPY_N: _bytes,
    **{
        kind: _skip_counted(size)
        for kind, size in zip(range(kernels.SKIP_1, kernels.SKIP_4 + 1), (1, 2, 3, 4), strict=True)
    },
}

"""A device for machines without a GPU: real numbers, computed on the CPU by a GPU's rules, and counted.

    with StandIn() as device:
        run = simulation(algorithm, data, common, device=DEVICE)
        device.counts = Counts()
        run.advance()
        assert device.counts.synchronisations == 1

Tensors say that they are on `standin:0`. Operations on them are computed by the CPU's kernels, unless a
GPU would refuse them because its tensors and the CPU's are mixed.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from tests.support.simulations import ROOT

NAME = "standin"
aten = torch.ops.aten


class _Backend:
    """What torch requests for a device's module."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


_setup_privateuseone_for_python_backend(NAME, _Backend())

DEVICE = torch.device(NAME, 0)

WAITING = {
    aten.nonzero.default,
    aten.masked_select.default,
    aten.equal.default,
    aten._unique2.default,
    aten.unique_dim.default,
    aten.unique_consecutive.default,
    aten.repeat_interleave.Tensor,
    aten.bincount.default,
}
"""Operations whose result's size, or whose answer, the host has to know before it goes on."""
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
INDEXING |= {aten._index_put_impl_.default}
JOINING = {aten.cat.default, aten.stack.default}
"""Operations that take no CPU tensor, not even a single number."""
WITHOUT_KERNEL = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
WITHOUT_KERNEL |= {"detach", "alias", "lift_fresh", "_unsafe_view", "_reshape_alias"}


def _lstm_cell(
    inputs: Tensor, hidden: Tensor, c: Tensor, *biases: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """What GPUs have as one kernel and CPUs have not: h, c, and the gates for the way back."""
    z = sum((b for b in biases if b is not None), inputs + hidden)
    i, f, g, o = z.chunk(4, 1)
    gates = torch.cat([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()], 1)
    i, f, g, o = gates.chunk(4, 1)
    c = f * c + i * g
    return o * c.tanh(), c, gates


def _lstm_cell_backward(
    into_h: Tensor | None,
    into_c: Tensor | None,
    before: Tensor,
    c: Tensor,
    gates: Tensor,
    biased: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients in the gates' inputs, in the scenario before, and in the bias."""
    i, f, g, o = gates.chunk(4, 1)
    tanh, zero = c.tanh(), torch.zeros_like(c)
    into_h, into_c = (zero if t is None else t for t in (into_h, into_c))
    into_c = into_c + into_h * o * (1 - tanh**2)
    parts = [
        into_c * g * i * (1 - i),
        into_c * before * f * (1 - f),
        into_c * i * (1 - g**2),
        into_h * tanh * o * (1 - o),
    ]
    z = torch.cat(parts, 1)
    return z, into_c * f, z.sum(0) if biased else None


KERNELS = {
    aten._thnn_fused_lstm_cell.default: _lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
}


@dataclass
class Counts:
    """What a GPU would have been asked: kernels launched, copies between it and the host, and where in
    the project the host waited for it.
    """

    launches: int = 0
    copies: int = 0
    most_bytes: int = field(default=0, compare=False)
    """Of tensors on the device at one time."""
    waits: list[str] = field(default_factory=list)

    @property
    def synchronisations(self) -> int:
        """How often the host waited."""
        return len(self.waits)


class Held:
    """The memory of the tensors that are on the device, which views share."""

    tensors: ClassVar[dict[int, int]] = {}
    """How many there are of each address."""
    bytes: ClassVar[int] = 0

    @classmethod
    def note(cls, made: OnDevice) -> None:
        """A tensor is there, until nobody has it any more."""
        storage = made.held.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if not cls.tensors.get(address):
            cls.bytes += size
        cls.tensors[address] = cls.tensors.get(address, 0) + 1
        weakref.finalize(made, cls._forget, address, size)
        for device in StandIn.open:
            device.counts.most_bytes = max(device.counts.most_bytes, cls.bytes)

    @classmethod
    def _forget(cls, address: int, size: int) -> None:
        cls.tensors[address] -= 1
        if not cls.tensors[address]:
            cls.bytes -= size
            del cls.tensors[address]


class OnDevice(torch.Tensor):
    """A tensor on the stand-in; `held` are its numbers, with the same strides."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, real: torch.Tensor) -> OnDevice:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            real.size(),
            strides=real.stride(),
            storage_offset=real.storage_offset(),
            dtype=real.dtype,
            device=DEVICE,
        )
        made.held = real
        Held.note(made)
        return made

    def tolist(self) -> Any:
        """Its numbers, for which the host waits."""
        return self.cpu().tolist()

    def untyped_storage(self) -> Any:
        """The memory that it shares with its views."""
        return self.held.untyped_storage()

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise RuntimeError(f"{function} on a tensor of a stand-in device that is closed")


class StandIn(TorchDispatchMode):
    """The device, while it is open."""

    open: ClassVar[list[StandIn]] = []

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counts()
        self._tape: list[tuple[Any, Any, Any, Any]] | None = None

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """What a GPU does for a graph: note what work launches, and on what memory, and give what launches
        just that again, as one launch. Nothing else of work is done then, and to wait for the device, or to
        copy from the host, is an error while it is captured.
        """
        self._tape = tape = []
        try:
            work()
        finally:
            self._tape = None

        def replay() -> None:
            self.counts.launches += 1
            with no_dispatch():
                for function, args, kwargs, before in tape:
                    again = tree_leaves(function(*args, **kwargs))
                    for old, new in zip(tree_leaves(before), again, strict=True):
                        if old is not new:
                            old.copy_(new)

        return replay

    def _computed(self, function: Any, args: Any, kwargs: Any) -> Any:
        """What the CPU computes; noted where it is captured, but for views, whose memory is written."""
        found = function(*args, **kwargs)
        if self._tape is not None and not _without_kernel(function):
            self._tape.append((function, args, kwargs, found))
        return found

    def __enter__(self) -> StandIn:
        self.open.append(self)
        # Backward passes run in this thread, where this mode is.
        self._threads = torch.autograd.set_multithreading_enabled(False)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        self.open.remove(self)
        self._threads.__exit__(None, None, None)
        super().__exit__(*error)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is aten._pin_memory.default:
            return _pinned(args[0])
        if function is aten.is_pinned.default:
            return _is_pinned(args[0])
        if function is aten._local_scalar_dense.default and isinstance(args[0], OnDevice):
            self._wait(function)
            return function(args[0].held)
        if function is aten._copy_from.default:
            function, args = aten.copy_.default, (args[1], args[0])
        if function in (aten._to_copy.default, aten.copy_.default):
            return self._copied(function, args, kwargs)
        given = [t for t in tree_leaves(args) if isinstance(t, torch.Tensor)]
        asked = kwargs.get("device")
        made_here = asked is not None and torch.device(asked).type == NAME
        if not made_here and not any(isinstance(t, OnDevice) for t in given):
            return function(*args, **kwargs)
        self._check(function, args, given)
        if made_here:
            kwargs = {**kwargs, "device": "cpu"}
        if function in WAITING:
            self._wait(function)
        if torch.Tag.inplace_view in function.tags:  # other shape, same numbers: `squeeze_`
            function(args[0].held, *args[1:], **kwargs)
            with no_dispatch():
                return function(*args, **kwargs)
        self.counts.launches += not _without_kernel(function)
        function = KERNELS.get(function, function)
        return _on_device(self._computed(function, _real(args), _real(kwargs)), given)

    def _check(self, function: Any, args: Any, given: list[torch.Tensor]) -> None:
        """Raise where a GPU does not take tensors of the CPU, and count the indices it copies."""
        elsewhere = [t for t in given if not isinstance(t, OnDevice)]
        if function in INDEXING and isinstance(args[0], OnDevice):
            for index in args[1]:
                if index is None:
                    continue
                if not isinstance(index, OnDevice):
                    self.counts.copies += 1
                    self._wait(function)
                elif index.dtype in (torch.bool, torch.uint8):
                    self._wait(function)
            elsewhere = [t for t in args[2:3] if not isinstance(t, OnDevice)]
        if elsewhere and function._schema.is_mutable and not isinstance(args[0], OnDevice):
            raise RuntimeError(f"{function} writes a tensor on the CPU with one on the device")
        for tensor in elsewhere:
            if tensor.dim() or function in JOINING:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, "
                    f"{NAME} and cpu, in {function}"
                )

    def _copied(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Conversions and copies: within a device, or between the two."""
        if function is aten.copy_.default:
            into, source = args[0], args[1]
            here = isinstance(into, OnDevice)
            unhurried = bool(args[2]) if len(args) > 2 else kwargs.get("non_blocking", False)
            dtype = into.dtype
        else:
            into, source = None, args[0]
            asked = kwargs.get("device")
            there = isinstance(source, OnDevice)
            here = there if asked is None else torch.device(asked).type == NAME
            unhurried = kwargs.get("non_blocking", False)
            dtype = kwargs.get("dtype") or source.dtype
        if here != isinstance(source, OnDevice):
            if self._tape is not None:
                raise RuntimeError(f"{function} is not permitted while a graph is captured")
            self.counts.copies += 1
            ready = source.is_contiguous() and _is_pinned(source) and dtype == source.dtype
            if not (here and unhurried and ready):
                self._wait(function)
        elif here:
            self.counts.launches += 1
        plain = {**kwargs, "device": torch.device("cpu")} if "device" in kwargs else kwargs
        found = self._computed(function, _real(args), plain)
        if into is not None:
            return into
        return OnDevice(found) if here else found

    def _wait(self, function: Any) -> None:
        """Note that the host waits, and the line of the project that makes it."""
        if self._tape is not None:
            raise RuntimeError(f"{function} is not permitted while a graph is captured")
        at = sys._getframe(1)
        while at.f_back and not _ours(at.f_code.co_filename):
            at = at.f_back
        path = at.f_code.co_filename.removeprefix(f"{ROOT}/")
        self.counts.waits.append(f"{function} in {at.f_code.co_name}, {path}:{at.f_lineno}")


def _below_modes(function: Any) -> Any:
    """What torch requests for a device out of sight of modes, as the copy in `torch.tensor(1, device=...)`."""

    def computed(*args: Any, **kwargs: Any) -> Any:
        return StandIn.open[-1].__torch_dispatch__(function, (), args, kwargs)

    return computed


_autocast = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
_autocast.fallback(torch.library.fallthrough_kernel)
_library = torch.library.Library("aten", "IMPL")
for _function in (aten.empty.memory_format, aten.empty_strided.default, aten._copy_from.default):
    _library.impl(_function, _below_modes(_function), "PrivateUse1")


def _ours(path: str) -> bool:
    """Whether a file is the project's, whose environment may lie in its folder."""
    return path.startswith(str(ROOT)) and "site-packages" not in path and path != __file__


def _real(tree: Any) -> Any:
    return tree_map_only(OnDevice, lambda t: t.held, tree)


def _on_device(found: Any, given: list[torch.Tensor]) -> Any:
    """Results on the device; what was written in place is the tensor that was given."""
    same = {id(t.held): t for t in given if isinstance(t, OnDevice)}
    return tree_map_only(
        torch.Tensor, lambda t: same[id(t)] if id(t) in same else OnDevice(t), found
    )


def _without_kernel(function: Any) -> bool:
    return function.is_view or function._schema.name.removeprefix("aten::") in WITHOUT_KERNEL


def _pinned(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in page-locked memory, from which a copy to the device needs no waiting."""
    copy = tensor.clone(memory_format=torch.contiguous_format)
    copy.page_locked = True
    return copy


def _is_pinned(tensor: torch.Tensor) -> bool:
    return getattr(tensor, "page_locked", False)

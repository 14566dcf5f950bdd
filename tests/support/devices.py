"""A stand-in for an accelerator where there is none: tensors of another device, pretended on the CPU.

Under `PretendDevice` a tensor is known to be on the CPU, known to be on the pretended device, or of unknown origin:
made outside the mode, or by code that torch does not let a mode see. An operation that would fail on a real device,
because it mixes CPU and device tensors, raises `DeviceMismatchError`. Unknown tensors count as device tensors when they
meet CPU tensors, and are not checked otherwise. So errors may be missed: in compiled code, in other threads, in
`torch.autograd.grad` (`Tensor.backward` is checked), and where a device lacks a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")
DEVICE = torch.device("cuda")  # what device tensors report; nothing is ever run there
ATTRIBUTE = "_pretended_device"

COPIES = {Tensor.copy_}  # may cross devices
CONCATENATIONS = {torch.stack, torch.cat, torch.hstack, torch.vstack}  # take no CPU scalars among device tensors
NUMPY: set[Any] = {Tensor.numpy, Tensor.__array__}
GET_DEVICE, SET_DATA = Tensor.device.__get__, Tensor.data.__set__  # type: ignore[attr-defined]
IS_CPU, IS_CUDA = Tensor.is_cpu.__get__, Tensor.is_cuda.__get__  # type: ignore[attr-defined]


@contextmanager
def pretend_device() -> Iterator[None]:
    """Run under `PretendDevice`, with `torch.from_numpy` and `Generator` replaced, which a mode does not see."""
    from_numpy = torch.from_numpy

    def mark_from_numpy(array: Any) -> Tensor:
        tensor = from_numpy(array)
        setattr(tensor, ATTRIBUTE, CPU)
        return tensor

    with PretendDevice(), patch("torch.from_numpy", mark_from_numpy), patch("torch.Generator", _Generator):
        yield


class _Generator(torch.Generator):
    """A generator that knows its pretended device."""

    pretended = CPU

    def __new__(cls, device: Any = CPU) -> _Generator:
        generator = super().__new__(cls, CPU)  # type: ignore[call-arg]
        generator.pretended = _pretended(device)
        return generator

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.pretended


class DeviceMismatchError(RuntimeError):
    """An operation would fail on a real device."""


class PretendDevice(TorchFunctionMode):
    """Track which tensors are on the CPU, and raise where they meet tensors of the pretended device.

    >>> with pretend_device():
    ...     x = torch.ones(3).to(DEVICE)
    ...     x + torch.arange(3, device=x.device)  # fine
    ...     x + torch.arange(3)                   # raises DeviceMismatchError
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (GET_DEVICE, IS_CPU, IS_CUDA):
            on_cpu = device_of(args[0]) == CPU
            return {GET_DEVICE: CPU if on_cpu else DEVICE, IS_CPU: on_cpu, IS_CUDA: not on_cpu}[func]
        if func in (Tensor.to, Tensor.cpu, Tensor.cuda):
            return _move(func, args, kwargs)
        if func in NUMPY and device_of(args[0]) == DEVICE:
            raise DeviceMismatchError("a tensor of the device cannot become a numpy array: use .cpu()")
        if func is SET_DATA:  # nn.Module.to moves parameters so
            setattr(args[0], ATTRIBUTE, device_of(args[1]))
            return func(*args, **kwargs)
        if func is Tensor.backward:
            return self._backward(args[0])
        return _run(func, args, kwargs)

    def _backward(self, loss: Tensor) -> None:
        """Run the engine with the mode on: inside a handler it is off, and custom functions would go unchecked."""
        ones = torch.ones_like(loss)
        with self:
            run_backward = torch.autograd.graph._engine_run_backward
            run_backward((loss,), (ones,), False, False, (), allow_unreachable=True, accumulate_grad=True)


def device_of(tensor: Tensor) -> torch.device | None:
    """CPU, DEVICE, or None if unknown."""
    device: torch.device | None = getattr(tensor, ATTRIBUTE, None)
    return device


def _run(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Check the operation, run it, and mark its results."""
    inputs = list(_tensors((args, kwargs)))
    device = _common_device(func, inputs)
    if kwargs.get("device") is not None:
        device, kwargs = _pretended(kwargs["device"]), {**kwargs, "device": CPU}
    elif not inputs:
        device = CPU  # a factory's default
    generator = kwargs.get("generator")
    if generator is not None and device is not None and device != generator.device:
        raise DeviceMismatchError(f"{_name(func)}: a {generator.device} generator cannot fill a {device} tensor")
    result = func(*args, **kwargs)
    for tensor in _tensors(result):
        if not any(tensor is each for each in inputs):
            setattr(tensor, ATTRIBUTE, device)
    return result


def _common_device(func: Callable[..., Any], inputs: list[Tensor]) -> torch.device | None:
    """Device of the results; raises where the inputs' devices do not go together."""
    if not inputs:
        return None
    if func in COPIES:
        return device_of(inputs[0])
    on_cpu = [tensor for tensor in inputs if device_of(tensor) == CPU]
    others = [tensor for tensor in inputs if device_of(tensor) != CPU]
    # A CPU scalar may meet device tensors, but a device scalar no CPU tensors.
    cpu_only = [tensor for tensor in on_cpu if tensor.dim() or func in CONCATENATIONS]
    device_only = [tensor for tensor in others if tensor.dim() or device_of(tensor) == DEVICE]
    if not others or (cpu_only and not device_only):
        return CPU
    if cpu_only:
        shapes = ", ".join(f"{device_of(each) or 'unknown'} {list(each.shape)}" for each in inputs)
        raise DeviceMismatchError(f"{_name(func)} mixes tensors of two devices: {shapes}")
    return DEVICE if any(device_of(tensor) == DEVICE for tensor in others) else None


def _move(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """`to`, `cpu` and `cuda`: a copy if the device changes, as on a real one."""
    tensor = args[0]
    source = target = device_of(tensor)
    if func is Tensor.cpu:
        target = CPU
    elif func is Tensor.cuda:
        target = DEVICE
    arguments: list[Any] = []
    for each in args[1:] if func is Tensor.to else ():
        if isinstance(each, (str, torch.device)):
            target, each = _pretended(each), CPU
        elif isinstance(each, Tensor):
            target, each = device_of(each), each.dtype
        arguments.append(each)
    kwargs = dict(kwargs) if func is Tensor.to else {}
    if kwargs.get("device") is not None:
        target, kwargs["device"] = _pretended(kwargs["device"]), CPU
    result = tensor.to(*arguments, **kwargs) if arguments or kwargs else tensor
    if result is tensor and target != source:
        result = tensor.clone()
    if result is not tensor:
        setattr(result, ATTRIBUTE, target)
    assert isinstance(result, Tensor)
    return result


def _pretended(device: Any) -> torch.device:
    return CPU if torch.device(device).type == "cpu" else DEVICE


def _tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _name(func: Callable[..., Any]) -> str:
    return str(getattr(func, "__qualname__", func))

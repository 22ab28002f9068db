"""Attributes of immutable records that are computed when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Generic, TypeVar, cast, overload

__all__ = ["Record", "lazy"]

T = TypeVar("T")


class Record:
    """Base of frozen dataclasses with lazy attributes, which are not pickled with the fields."""

    def __getstate__(self) -> dict[str, Any]:
        names = [field.name for field in fields(cast(Any, self))]
        return {name: self.__dict__[name] for name in names}


class lazy(Generic[T]):  # noqa: N801 - a decorator, as functools.cached_property
    """A property that is computed once, without a lock.

    `functools.cached_property` of Python 3.11 has one lock for all instances, which a process
    that is forked while another thread computes would wait for in vain. Here two threads may
    compute the same value at the same time, and one of the two is kept.

    Examples
    --------
    >>> class Square:
    ...     def __init__(self, side):
    ...         self.side = side
    ...     @lazy
    ...     def area(self):
    ...         return self.side**2
    >>> Square(3).area
    9
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(self.name, self.compute(instance))
        return value

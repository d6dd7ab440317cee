"""What is merged into a kernel is optimized there, and gets no machine code of its own.

Numba optimizes every function that a kernel calls, with all that this one calls, and makes machine code of
it, before the kernel into which it is merged goes the same way: hundreds of rules and of Numba's own
functions, a fifth of the time that compiling takes, for code that hardly ever runs. Here, while a kernel of
this package is compiled, a function gets both when somebody asks where it stands or what to keep on the disk:
at once for what Python calls, later or never for the others. What recurs gets both at once, since Numba
looks for it by its name. LLVM sees the rules as they are written, so a kernel's instructions may differ
from those that Numba alone would make of it; its results do not.

A function too long to be merged stays a call in the kernel, to a copy in the kernel's own code that nobody
else can see: another process may have given its name to another function, which a kernel from the disk
brings along, and of two that can be seen the linker would take the first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen, RuntimeLinker
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import lookup_environment

__all__ = ["merging"]

_ENVIRONMENT = "_ZN08NumbaEnv"  # how pointers are called to what a function that raises knows of Python


class _Library(JITCodeLibrary):
    """A compiled function with all that it calls."""

    merging: ClassVar[bool] = False
    _waits = False  # to be asked for

    def _optimize_final_module(self) -> None:
        """First of two that Numba calls when all is linked."""
        variables = self._final_module.global_variables
        recurs = any(variable.name.startswith(RuntimeLinker.PREFIX) for variable in variables)
        self._waits = self.merging and not recurs
        if not self._waits:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        """Second of them, and the only one of a function that is read from the disk: make machine code."""
        if self._waits:
            self._finalize_dynamic_globals()
            self._finalized = True
        else:
            super()._finalize_final_module()
            self._tell_environments()

    def _tell_environments(self) -> None:
        """Set the pointers of all that is merged here; Numba has done so for what had machine code then."""
        codegen: Any = self._codegen
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    codegen.set_env(variable.name, environment)

    def _make(self) -> None:
        if not self._waits:
            return
        with global_compiler_lock:
            if self._waits:  # and no other thread has made it meanwhile
                super()._optimize_final_module()
                self._hide_copies()
                super()._finalize_final_module()
                self._tell_environments()
                self._waits = False

    def _hide_copies(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = "internal"

    def get_pointer_to_function(self, name: str) -> Any:
        """Where a function stands; 0 where there is none of this name."""
        self._ensure_finalized()
        if self._waits and all(function.name != name for function in self._final_module.functions):
            return 0
        self._make()
        return super().get_pointer_to_function(name)

    def _get_compiled_object(self) -> Any:
        """Machine code, to keep it on the disk."""
        self._make()
        return super()._get_compiled_object()


@contextmanager
def merging() -> Iterator[None]:
    """While entered, under the lock of Numba's compiler, all is compiled so."""
    before = _Library.merging
    _Library.merging = True
    try:
        yield
    finally:
        _Library.merging = before


def _install() -> None:
    set_usually = JITCPUCodegen.set_env

    def set_env(self: Any, name: str, environment: Any) -> None:
        if self._engine.is_symbol_defined(name):  # else there is no machine code, nor a place to write to
            set_usually(self, name, environment)

    JITCPUCodegen.set_env = set_env  # type: ignore[method-assign]
    JITCPUCodegen._library_class = _Library


_install()

"""Check that a server can run each custom call and transfer of a module, called or not."""

from xla_contract.types.opcode import Opcode
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.ir.module import HloModule
from xla_server.ops.feeds.send_recv import require_own


def require_supported(module: HloModule, custom_calls: CustomCallRegistry) -> None:
    """Raise UnimplementedError for a custom call or a transfer that no execution could do.

    This includes computations without a caller: passes drop them, so only a check before the
    passes refuses them on every platform. Raises InvalidArgumentError for a custom call that its
    target does not take.
    """
    for instruction in module.instructions():
        if instruction.opcode is Opcode.CUSTOM_CALL:
            custom_calls.resolve(instruction)
        elif (
            instruction.opcode in (Opcode.SEND, Opcode.RECV)
            and module.grid.size == 1
            and not instruction.attributes.is_host_transfer
        ):
            require_own(instruction)

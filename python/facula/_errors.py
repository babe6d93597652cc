"""The library's errors name the line that mends them, in C; here it becomes the same line in Python."""
import re

from ._C import _names

# What has another name in Python, and no rule of its own.
_OTHERS = {
    "child": "by name or index", "drop": "del", "event_synchronize": "event.synchronize()", "fallback_get": f"{_names}.fallbacks()",
    "mempool_new": f"{_names}.cuda.MemPool()", "pack_padded_sequence": f"{_names}.nn.utils.rnn.pack_padded_sequence",
    "save_safetensors": f"{_names}.io.save_safetensors", "load_pt": f"{_names}.load", "save_for_backward": "ctx.save_for_backward",
    "t_": "t_()", "transpose_": "transpose_()", "to_data": "tolist()",
}

_RULES = [(re.compile(pattern), result) for pattern, result in (
    (r" ?\(In C: [^()]*(?:\([^()]*\)[^()]*)*\)", ""),                            # what is for C only
    (r" In C(?: that is|:) [^.]*(?:\([^()]*\)[^.]*)*\.(?=\s|$)", ""),
    (r"\bfa_[\w.]+; in Python ", ""),
    (r"fa_to\(([^,()]+), fa_device_parse\(\"([^\"]+)\"\)\)", r'\1.to("\2")'),
    (r"fa_to\((\w+), fa_device_of\((\w+)\)\)", r"\1.to(\2.device)"),
    (r"fa_cast\(([^,()]+), FA_([A-Z0-9]+)\)", lambda m: f"{m[1]}.to({_names}.{m[2].lower()})"),
    (r"fa_to\((\w+), device\)", r"\1.to(device)"),
    (r"Call fa_event_record first", "Call event.record() first"),
    (r"fa_cast\(([^,()]+), \.\.\.\)", r"\1.to(dtype)"),
    (r"fa_(?:module_to_dtype|module_to)\(([^,()]+), \.\.\.\)", r"\1.to(dtype)"),
    (r"fa_module_to_dtype|fa_cast|FA_CAST", ".to(dtype)"),
    (r"fa_to\b(?!\()", ".to(device)"),
    (r"fa_requires_grad\(fa_detach\((\w+)\), true\)", r"\1.detach().requires_grad_()"),
    (r"fa_(cpu|item|detach|clone|any|all|contiguous|t|reshape|numel)\((\w+)\)", r"\2.\1()"),
    (r"fa_(\w+?)_scalar\((\w+), ([^()]+)\)", lambda m: f"{m[2]} {_SIGNS[m[1]]} {m[3]}" if m[1] in _SIGNS else m[0]),
    (r"fa_set_grad\((\w+), NULL\)", r"\1.grad = None"),
    (r"fa_zero_grad\b", "zero_grad()"),
    (r"fa_bce_with_logits_loss\b", f"{_names}.nn.functional.binary_cross_entropy_with_logits"),
    (r"fa_softmax|fa_log_softmax|fa_\w*loss\b", lambda m: f"{_names}.nn.functional.{m[0][3:]}"),
    (r"FA_NO_GRAD", f"{_names}.no_grad()"),
    (r"fa_generator_new on the tensor's device", f"{_names}.Generator(device) with the tensor's device"),
    (r"fa_generator_new\((?:FA_CPU|device)\)", f"{_names}.Generator('cpu')"),
    (r"leave \.(\w+) out", r"leave \1= out"),
    (r"fa_memory_alloc", f"{_names}.cuda.caching_allocator_alloc"),
    (r"fa_empty_cache", lambda m: f"{_names}.{_kind(m.string)}.empty_cache()"),
    (r"give \.(\w+)\b", r"give \1="),
    (r"\.(retain_graph|dtype|device|requires_grad) = (\w+)", lambda m: f"{m[1]}={m[2].capitalize() if m[2] in ('true', 'false') else m[2]}"),
    (r"between fa_graph_begin and fa_graph_end", f"in `with {_names}.cuda.graph(g):`"),
    (r"A capture begins with fa_graph_begin", f"A capture begins with `with {_names}.cuda.graph(g):`"),
    (r"fa_set_sync_debug_mode\(FA_SYNC_ALLOWED\)", f'{_names}.cuda.set_sync_debug_mode("default")'),
    (r"fa_stream_new\(device, 0\)", f"{_names}.cuda.Stream()"),
    (r"fa_stream_wait_stream\(captured, other\)", "captured.wait_stream(other)"),
    (r"fa_graph_pool_new\(\)", f"{_names}.cuda.graph_pool_handle()"),
    (r"fa_graph_reset empties this one", "reset() empties this one"),
    (r"\bfa_(set_memory_fraction|memory_fraction)\b", lambda m: f"{_names}.{_kind(m.string)}.{m[1].replace('memory', 'per_process_memory')}"),
    (r"\bfa_(" + "|".join(_OTHERS) + r")(?:\(device\))?(?![\w(])", lambda m: _OTHERS[m[1]]),
    (r"\bfa_(?=[a-z])", f"{_names}."),
    (r"\bFA_((?:U?INT|B?FLOAT)\d+|BOOL)\b", lambda m: f"{_names}.{m[1].lower()}"),
    (r"\bNULL\b", "None"),
)]
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "add": "+", "sub": "-", "mul": "*", "div": "/"}


def _kind(text):
    """The device's type in "XPU out of memory. ..."."""
    found = re.match(r"(\w+) out of memory", text)
    return found[1].lower() if found else "cuda"


def translate(text):
    """The text of an error of the library, as a Python programmer needs it."""
    for pattern, result in _RULES:
        text = pattern.sub(result, text)
    return text

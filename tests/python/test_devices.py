"""Devices, as PyTorch has them with two GPUs: placement, moves, the default device, errors. Run with two simulated ones."""

import json
import os
import subprocess
import sys
import unittest

# a line of Python | what it prints, or how its error begins
LINES = """
torch.ones(2, device='cuda') | tensor([1., 1.], device='cuda:0')
torch.ones(2, device='cuda').device | device(type='cuda', index=0)
torch.ones(2, device=1).device | device(type='cuda', index=1)
torch.ones(2).cuda().device | device(type='cuda', index=0)
torch.ones(2).cuda(1).device | device(type='cuda', index=1)
torch.ones(2).cuda('cuda:1').device | device(type='cuda', index=1)
torch.ones(2).to(0).device | device(type='cuda', index=0)
torch.ones(2).to('cuda:1') | tensor([1., 1.], device='cuda:1')
torch.ones(2).to(torch.ones(1, device='cuda:1')).device | device(type='cuda', index=1)
torch.ones(2).to('cuda', torch.float64) | tensor([1., 1.], device='cuda:0', dtype=torch.float64)
torch.ones(2, device='cuda').cpu() | tensor([1., 1.])
(lambda x: (x.is_cuda, x.is_cpu, x.get_device(), x.type()))(torch.ones(2, device='cuda')) | (True, False, 0, 'torch.cuda.FloatTensor')
torch.ones(2).type('torch.cuda.LongTensor') | tensor([1, 1], device='cuda:0')
(lambda x: x.to('cuda') is x)(torch.ones(2, device='cuda')) | True
(lambda x: x.to('cuda:1') is x)(torch.ones(2, device='cuda')) | False
(lambda x: x.cuda() is x)(torch.ones(2, device='cuda')) | True
torch.ones(2, device='cuda') + torch.tensor(1.) | tensor([2., 2.], device='cuda:0')
torch.ones(2, device='cuda') * 2 | tensor([2., 2.], device='cuda:0')
torch.ones(2, device='cuda') + torch.ones(2) | RuntimeError: Expected all tensors to be on the same device
torch.ones(2, device='cuda') + torch.ones(2, device='cuda:1') | RuntimeError: Expected all tensors to be on the same device
torch.mm(torch.ones(2, 2, device='cuda'), torch.ones(2, 2)) | RuntimeError: Expected all tensors to be on the same device
torch.cat([torch.ones(2, device='cuda'), torch.ones(2)]) | RuntimeError: Expected all tensors to be on the same device
torch.nn.Linear(2, 1).cuda()(torch.ones(1, 2)) | RuntimeError: Expected all tensors to be on the same device
torch.ones(2, device='cuda').add_(torch.ones(2)) | RuntimeError: Expected all tensors to be on the same device
torch.ones(2).copy_(torch.ones(2, device='cuda') * 3) | tensor([3., 3.])
torch.ones(1, 2, 3, 4).to('cuda', memory_format=torch.channels_last).stride() | (24, 1, 8, 2)
torch.ones(1, 2, 3, 4, 5).to(memory_format=torch.channels_last_3d).stride() | (120, 1, 40, 10, 2)
torch.empty(1, 2, 3, 4, memory_format=torch.channels_last, requires_grad=True).stride() | (24, 1, 8, 2)
torch.zeros_like(torch.ones(1, 2, 3, 4), memory_format=torch.channels_last, requires_grad=True).is_leaf | True
(lambda x: (x.is_contiguous(), x.is_contiguous(memory_format=torch.channels_last), x.contiguous().stride()))(torch.ones(1, 2, 3, 4).clone(memory_format=torch.channels_last)) | (False, True, (24, 12, 4, 1))
torch.ones(1, 2, 3, 4).is_contiguous(memory_format=torch.channels_last) | False
torch.equal(torch.arange(24.).reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last), torch.arange(24.).reshape(1, 2, 3, 4)) | True
torch.ones(2, 3).clone(memory_format=torch.channels_last) | RuntimeError: required rank 4 tensor to use channels_last format
torch.ones(2).clone(memory_format='x') | TypeError: argument 'memory_format' must be torch.memory_format, not str
torch.ones(2).is_contiguous(torch.channels_last) | TypeError: is_contiguous() takes 0 positional arguments but 1 was given
torch.nn.Conv2d(2, 3, 3).to('cuda', memory_format=torch.channels_last).weight.stride() | (18, 1, 6, 2)
torch.nn.Linear(1, 1).to(memory_format=torch.channels_last).weight.shape | torch.Size([1, 1])
trained(torch.contiguous_format) == trained(torch.channels_last) | True
torch.ones(2)[torch.tensor([0], dtype=torch.int16)] | IndexError: tensors used as indices must be long, int, byte or bool tensors
torch.ones(2).index_select(0, torch.tensor([0.])) | RuntimeError: index_select(): Expected dtype int32 or int64 for index
torch.ones(2).index_add(0, torch.tensor([0.]), torch.ones(1)) | RuntimeError: index_add_(): Expected dtype int32/int64 for index but got: Float
torch.ones(2, device='cuda').type('torch.FloatTensor').device | device(type='cpu')
torch.ones(2).type(torch.cuda.LongTensor).device | device(type='cuda', index=0)
torch.ones(2).type('torch.foo.LongTensor') | ValueError: invalid type: 'torch.foo.LongTensor'
torch.nn.Linear(1, 1).to(1).weight.device | device(type='cuda', index=1)
torch.nn.Linear(1, 1).to(other=torch.ones(1)) | TypeError: to() received an invalid combination of arguments - got (other=Tensor
torch.cuda.can_device_access_peer(0, 1) | True
torch.cuda.can_device_access_peer(0, 5) | AssertionError: Invalid peer device id
torch.cuda.set_device('cuda') | ValueError: Expected a torch.device with a specified index or an integer, but got: cuda
torch.accelerator.set_device_index('cuda') | ValueError: Expected a torch.device with a specified index or an integer, but got:cuda
torch.accelerator.synchronize('cpu') | RuntimeError: cpu doesn't match the current accelerator cuda
torch.accelerator.memory_allocated('xpu:0') | RuntimeError: xpu doesn't match the current accelerator cuda
torch.ones(2, 2, device='cuda')[torch.tensor([0])] | tensor([[1., 1.]], device='cuda:0')
torch.ones(2, 2)[torch.tensor([0], device='cuda')] | RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)
torch.ones(2, device='cuda:2') | AcceleratorError: CUDA error: invalid device ordinal
torch.ones(2, device='cuda').numpy() | TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.
torch.ones(2, device='cuda').tolist() | [1.0, 1.0]
float(torch.ones(1, device='cuda')) | 1.0
torch.ones(2, device='cuda').sum().item() | 2.0
(torch.cuda.device_count(), torch.cuda.is_available(), torch.cuda.current_device()) | (2, True, 0)
torch.cuda.get_device_name(0) | Facula simulated GPU 0
torch.accelerator.current_accelerator() | device(type='cuda')
torch.accelerator.device_count() | 2
torch.zeros_like(torch.ones(2, device='cuda:1')).device | device(type='cuda', index=1)
torch.ones(2, device='cuda:1').new_zeros(2).device | device(type='cuda', index=1)
copy.deepcopy(torch.ones(2, device='cuda:1')).device | device(type='cuda', index=1)
pickle.loads(pickle.dumps(torch.ones(2, device='cuda:1'))).device | device(type='cuda', index=1)
torch.randn(2, device='cuda', generator=torch.Generator()) | RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'
torch.Generator(device='cuda').device | device(type='cuda', index=0)
torch.Generator(device='cuda').get_state().shape | torch.Size([16])
torch.as_tensor([1], device='cuda').device | device(type='cuda', index=0)
torch.ones(2, device='cuda', requires_grad=True).cpu() | tensor([1., 1.], grad_fn=<ToCopyBackward0>)
torch.zeros(2, pin_memory=True, device='cuda') | RuntimeError: Only dense CPU tensors can be pinned
[f(2, pin_memory=True).is_pinned() for f in (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.eye, torch.arange, torch.randperm, torch.hann_window)] | [True, True, True, True, True, True, True, True, True]
[f(torch.ones(2), pin_memory=True).is_pinned() for f in (torch.empty_like, torch.zeros_like, torch.ones_like, torch.rand_like, torch.randn_like)] | [True, True, True, True, True]
torch.tensor([1., 2.], pin_memory=True, requires_grad=True).is_pinned() | True
torch.full((2,), 1, pin_memory=True).is_pinned() and torch.randint(3, (2,), pin_memory=True).is_pinned() and torch.normal(0., 1., (2,), pin_memory=True).is_pinned() | True
[getattr(torch.ones(2), 'new_' + n)(2, pin_memory=True).is_pinned() for n in ('empty', 'zeros', 'ones', 'tensor')] | [True, True, True, True]
torch.ones(2).new_tensor([1.], requires_grad=True) | tensor([1.], requires_grad=True)
torch.tril_indices(2, 2, pin_memory=True).is_pinned(), torch.triu_indices(2, 2, dtype=torch.int32).dtype | (True, torch.int32)
torch.ones(2, pin_memory=False).is_pinned() | False
torch.device('hpu'), torch.device('hpu:1').index | (device(type='hpu'), 1)
torch.ones(2, device='hpu') | NotImplementedError: Found no hpu device on your system: nothing in Facula serves this type.
torch.ones(2, device='xla:1') | NotImplementedError: Found no xla device on your system: nothing in Facula serves this type.
torch.device('meta') | device(type='meta')
torch.ones(2).to('meta') | NotImplementedError: Tensors on the device meta, which have sizes and no data, are planned.
torch.ones(2, device='xpu') | RuntimeError: Found no xpu device: FACULA_SIM=cuda:2 names none. Add one: FACULA_SIM=cuda:2,xpu:1
torch.ones(2, device='cuda').pin_memory() | RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned
torch.empty(10**12, device='cuda') | OutOfMemoryError: CUDA out of memory. Tried to allocate 3725.29 GiB.
within(torch.device('cuda:1'), lambda: torch.ones(1).device) | device(type='cuda', index=1)
within(torch.device('cuda:1'), lambda: torch.tensor(1).device) | device(type='cuda', index=1)
within(torch.device('cuda:1'), lambda: torch.nn.Linear(1, 1).weight.device) | device(type='cuda', index=1)
within(torch.device('cuda:1'), lambda: torch.randperm(3).device) | device(type='cuda', index=1)
within(torch.device('cuda:1'), lambda: torch.as_tensor([1]).device) | device(type='cuda', index=1)
within(torch.device('cuda:1'), lambda: torch.ones(1, device='cpu').device) | device(type='cpu')
within(torch.device('cuda:1'), lambda: torch.ones_like(torch.ones(1, device='cpu')).device) | device(type='cpu')
within(torch.device('cuda:1'), lambda: torch.ones(1, device='cpu').new_zeros(1).device) | device(type='cpu')
within(torch.device('cuda:1'), lambda: torch.Tensor([1]).device) | device(type='cpu')
within(torch.device('cuda:1'), lambda: torch.normal(0., 1., (1,)).device) | device(type='cpu')
within(torch.device('cuda:1'), lambda: torch.get_default_device()) | device(type='cuda', index=1)
within(torch.device('cuda:1'), lambda: within(torch.device('cpu'), lambda: torch.ones(1).device)) | device(type='cpu')
within(torch.device('cuda:1'), lambda: 1 / 0) | ZeroDivisionError: division by zero
torch.ones(1).device | device(type='cpu')
(torch.set_default_device('cuda'), torch.ones(1).device, torch.get_default_device())[1:] | (device(type='cuda', index=0), device(type='cuda', index=0))
(torch.set_default_device('cuda:1'), torch.get_default_device())[1] | device(type='cuda', index=1)
within(torch.cuda.device(1), lambda: torch.ones(1, device='cuda').device) | device(type='cuda', index=1)
(torch.cuda.set_device(1), torch.ones(1, device='cuda').device)[1] | device(type='cuda', index=1)
torch.cuda.set_device('cpu') | ValueError: Expected a cuda device, but got: cpu
"""
CASES = [line.rpartition(" | ") for line in LINES.strip().split("\n")]


def answers():
    import copy
    import pickle

    import facula as torch

    def within(context, call):
        with context:
            return call()

    def trained(memory_format):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Flatten(), torch.nn.Linear(12, 2)).to("cuda", memory_format=memory_format)
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(2, 2, 4, 4, device="cuda").to(memory_format=memory_format)).square().sum().backward()
            optimizer.step()
        return [p.tolist() for p in net.parameters()]

    names, told = {"torch": torch, "copy": copy, "pickle": pickle, "within": within, "trained": trained}, []
    for line, _, _ in CASES:
        try:
            value = eval(line, names)
            told.append((value if isinstance(value, str) else repr(value)).replace("facula.", "torch."))
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")
        torch.set_default_device(None)
        torch.cuda.set_device(0)
    return told


class Devices(unittest.TestCase):
    maxDiff = None

    def test_with_two_devices(self):
        program = "import json, test_devices; print(json.dumps(test_devices.answers()))"
        done = subprocess.run(
            [sys.executable, "-B", "-c", program],
            capture_output=True,
            text=True,
            timeout=100,
            cwd=os.path.dirname(os.path.abspath(__file__)),
            env={**os.environ, "FACULA_SIM": "cuda:2"},
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual(len(told), len(CASES))
        for (line, _, expected), found in zip(CASES, told):
            with self.subTest(line=line):
                error = expected.split(" ")[0].endswith("Error:")
                self.assertEqual(found[: len(expected)] if error else found, expected)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Keeps PyTorch's answers to python_api.py in python.json.gz: make_python.py, with a Python that has torch 2.13."""
import gzip
import json
import os

import torch
import torch.optim.lr_scheduler
import torch.utils.data

import python_api

answers = {name: python_api.answer(function, torch) for name, function in python_api.CASES.items()}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python.json.gz")
with open(path, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
    z.write(json.dumps({"torch": torch.__version__, "answers": answers}, separators=(",", ":")).encode())
print(path, os.path.getsize(path), "bytes,", len(answers), "cases")

# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="lathe") against eager mode: what runs, and what runs in eager mode for a reason. Run by slow.py."""
import pathlib
import sys
import unittest
import warnings

import torch
import torchvision
import transformers

import lathe

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from blocks import blocks  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/python.md"


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Linear(8, 10)

    def forward(self, x):
        return self.linear(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class Backend(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch.compiler.reset()

    def compiled(self, function, **options):
        return torch.compile(function, backend="lathe", options={"level": 0, "fallback": False, **options})

    def check(self, function, *inputs, limit=1e-5, **options):
        with torch.no_grad():
            self.check_same(self.compiled(function, **options)(*inputs), function(*inputs), limit)

    def check_same(self, got, expected, limit=1e-5):
        self.assertEqual((got.dtype, got.shape), (expected.dtype, expected.shape))
        self.assertLessEqual(float((got.double() - expected.double()).norm()), limit * float(expected.double().norm()))

    def check_eager(self, reason, function, *inputs, grad=False):
        """Runs in eager mode, with one warning; without fallback it is an error."""
        with torch.set_grad_enabled(grad):
            with self.assertRaisesRegex(lathe.InputError, reason):
                self.compiled(function)(*inputs)
            torch.compiler.reset()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                compiled = self.compiled(function, fallback=True)
                result = compiled(*inputs)
                compiled(*inputs)
        said = [str(w.message) for w in caught if "lathe" in str(w.message)]
        self.assertEqual(len(said), 1, said)
        self.assertRegex(said[0], f"lathe: a graph runs in eager mode: .*{reason}")
        return result

    def test_a_module_and_other_shapes(self):
        model = Small().eval()
        compiled = self.compiled(model)
        with torch.no_grad():
            for batch in (2, 5, 7, 2):
                x = torch.randn(batch, 3, 16, 16)
                self.check_same(compiled(x), model(x))

    def test_weights_that_change(self):
        model, x = Small().eval(), torch.randn(2, 3, 16, 16)
        compiled = self.compiled(model)
        with torch.no_grad():
            before = compiled(x)
            model.linear.weight.add_(1)
            self.check_same(compiled(x), model(x))
            self.assertGreater(float((compiled(x) - before).abs().max()), 0.1)

    def test_many_results_constants_and_types(self):
        def function(x, n):
            return {"sum": x + n, "n": n, "none": None, "is_large": x > 0.5, "index": x.argmax(-1)}
        x = torch.randn(3, 4)
        with torch.no_grad():
            got, expected = self.compiled(function)(x, 3), function(x, 3)
        self.assertEqual((got["n"], got["none"], list(got)), (3, None, list(expected)))
        for name in ("sum", "is_large", "index"):
            self.assertTrue(torch.equal(got[name], expected[name]), name)

    def test_inputs_that_are_not_contiguous_or_unused(self):
        self.check(lambda x, y: x * 2 + 1, torch.randn(4, 6).t(), torch.randn(2))

    def test_graph_breaks(self):
        def function(x):
            y = torch.sin(x)
            torch._dynamo.graph_break()
            return torch.cos(y)
        self.check(function, torch.randn(8))

    def test_gradients_run_in_eager_mode(self):
        model = Small().eval()
        result = self.check_eager("gradients are wanted", model, torch.randn(2, 3, 16, 16), grad=True)
        result.sum().backward()
        self.assertIsNotNone(model.linear.weight.grad)

    def test_training_runs_in_eager_mode(self):
        model = Small().train()
        before = model.norm.running_mean.clone()
        self.check_eager("it trains .aten.batch_norm.default.: call eval.. on the model", model, torch.randn(2, 3, 16, 16))
        self.assertFalse(torch.equal(model.norm.running_mean, before))

    def test_random_numbers_run_in_eager_mode(self):
        self.check_eager("it has random numbers", lambda x: x + torch.rand(8), torch.randn(8))
        self.check_eager("it trains .aten.dropout.default.", lambda x: torch.nn.functional.dropout(x, 0.5, True), torch.randn(8))

    def test_inputs_that_are_written_run_in_eager_mode(self):
        x = torch.zeros(4)
        self.check_eager("it writes to its inputs or buffers", lambda x: x.add_(1) * 2, x)
        self.assertEqual(x.tolist(), [2] * 4)

    def test_an_operator_without_export_runs_in_eager_mode(self):
        self.check_eager("torch.onnx has no such model|torch.export failed", lambda x: torch.linalg.eigvalsh(x @ x.t()), torch.randn(4, 4))

    def test_options(self):
        with self.assertRaisesRegex(Exception, "there is no such option"):
            self.compiled(Small().eval(), levle=3)(torch.randn(1, 3, 16, 16))
        self.check(Small().eval(), torch.randn(1, 3, 16, 16), precision="bf16", limit=0.05)

    def test_the_page(self):
        exec(compile(blocks(PAGE, "pytorch"), str(PAGE), "exec"), {})

    def test_vision_models(self):
        for name in ("resnet18", "mobilenet_v2", "efficientnet_b0", "densenet121", "vit_b_16", "convnext_tiny", "shufflenet_v2_x1_0", "squeezenet1_1"):
            with self.subTest(name):
                torch.compiler.reset()
                self.check(getattr(torchvision.models, name)().eval(), torch.randn(1, 3, 224, 224), limit=1e-4)

    def test_transformers(self):
        size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 500}
        gpt = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 500}
        t = transformers
        for config, kind in ((t.BertConfig(**size), t.BertModel), (t.RobertaConfig(**size), t.RobertaModel),
                             (t.DistilBertConfig(dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=500), t.DistilBertModel),
                             (t.GPT2Config(**gpt, use_cache=False), t.GPT2Model),
                             (t.LlamaConfig(**size, num_key_value_heads=2, use_cache=False), t.LlamaModel)):
            with self.subTest(kind.__name__):
                torch.compiler.reset()
                model, ids = kind(config).eval(), torch.randint(0, 500, (2, 16))
                self.check(lambda i: model(input_ids=i).last_hidden_state, ids, limit=1e-4)


if __name__ == "__main__":
    unittest.main()

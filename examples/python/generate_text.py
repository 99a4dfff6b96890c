# SPDX-License-Identifier: Apache-2.0
"""Text from a language model, one token at a time: generate_text.py MODEL.onnx [--prompt TEXT] [--tokens N] [--letters TEXT.txt | --tokenizer FILE]

MODEL.onnx is one step of a decoder with its caches (past.N.key -> present.N.key and the like), as optimum and others export it; tiny_decoder.py
writes one. The caches stay in the context: each step takes one token and gives the scores of the next, and nothing is copied.

--letters: tokens are the letters of this text, sorted (tiny_decoder.py); --tokenizer: a tokenizer.json of Hugging Face (pip install tokenizers).
"""
import argparse
import pathlib
import time

import numpy as np

import lathe


class Letters:
    def __init__(self, text):
        self.letters = sorted(set(text))

    def encode(self, text):
        return [self.letters.index(c) for c in text]

    def decode(self, tokens):
        return "".join(self.letters[t] for t in tokens)


class HuggingFace:
    def __init__(self, path):
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(path)

    def encode(self, text):
        return self.tokenizer.encode(text).ids

    def decode(self, tokens):
        return self.tokenizer.decode(tokens)


class Generator:
    """`most`: tokens that the caches have room for."""

    def __init__(self, model, most, threads=0):
        builder = lathe.Builder(threads=threads)
        network = builder.parse_onnx(str(model))
        config, profile = lathe.BuilderConfig(), lathe.OptimizationProfile()
        config.optimization_level = 1
        for tensor in network.inputs:  # a dim that is not known is the length of what came before, or one
            low, opt, high = ([d if d >= 0 else at(name) for d, name in zip(tensor.shape, tensor.dim_names)]
                              for at in (lambda name: 0 if "past" in name and "+" not in name else 1,
                                         lambda name: most // 2 if "past" in name else 1,
                                         lambda name: most if "past" in name else 1))
            if -1 in tensor.shape:
                profile.set_shape(tensor.name, low, opt, high)
        config.add_profile(profile)
        self.engine = builder.build(network, config)
        self.context = lathe.ExecutionContext(self.engine)
        self.state = {name for pair in self.context.keep_state() for name in pair}
        self.inputs = [t for t in self.engine.inputs if t.name not in self.state]
        self.logits = [t.name for t in self.engine.outputs if t.name not in self.state].index(
            next(t.name for t in self.engine.outputs if t.name not in self.state and "logits" in t.name))
        self.tokens = 0

    def step(self, token):
        """The scores of the token behind this one."""
        arrays = []
        for tensor in self.inputs:
            if "mask" in tensor.name:
                arrays.append(np.ones((1, self.tokens + 1), np.int64))
            elif "position" in tensor.name:
                arrays.append(np.array([[self.tokens]], np.int64))
            else:
                arrays.append(np.array([[token]], np.int64))
        self.tokens += 1
        return np.asarray(self.context.run(arrays)[self.logits]).reshape(-1)


def generate(generator, tokens, count, choose):
    for token in tokens[:-1]:
        generator.step(token)
    tokens = list(tokens)
    for _ in range(count):
        tokens.append(int(choose(generator.step(tokens[-1]))))
    return tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--prompt", default="The ")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--letters", type=pathlib.Path)
    parser.add_argument("--tokenizer")
    arguments = parser.parse_args()
    vocabulary = HuggingFace(arguments.tokenizer) if arguments.tokenizer else Letters(arguments.letters.read_text())
    prompt = vocabulary.encode(arguments.prompt)
    generator = Generator(arguments.model, most=len(prompt) + arguments.tokens)
    start = time.perf_counter()
    tokens = generate(generator, prompt, arguments.tokens, choose=np.argmax)
    seconds = time.perf_counter() - start
    print(vocabulary.decode(tokens))
    print(f"{(len(tokens) - 1) / seconds:.0f} tokens a second; caches: {generator.context.state_notes()}")


if __name__ == "__main__":
    main()

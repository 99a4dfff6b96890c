#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Architectures of torchvision and transformers, small and with random weights, as torch's two exporters write them: does each
import, build and agree with ONNX Runtime?

usage: architectures.py --build build [--device cpu] [--folder DIR] [--only TEXT] [--exporter dynamo|script] [--level 0] [--json FILE]
By hand, because PyTorch is large: run it with a Python that has torch, torchvision, transformers, onnx, onnxscript and onnxruntime.
DIR keeps the exported files (default BUILD/architectures); a file that is there is not exported again. A model that the exporter itself
cannot write is listed as such and is no failure. Each export and each check has a process and a time limit of its own.
Exit code 1 when a model does not import, does not build or differs by more than 1e-4 (relative L2).
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "gpu"), str(HERE.parent / "common")]

IMAGE = (1, 3, 224, 224)
VISION = {
    name: IMAGE
    for name in (
        "alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet maxvit_t mnasnet0_5 mobilenet_v2 mobilenet_v3_small "
        "mobilenet_v3_large regnet_x_400mf regnet_y_400mf resnet18 resnext50_32x4d shufflenet_v2_x1_0 squeezenet1_1 swin_t swin_v2_t vgg11_bn "
        "vit_b_32 wide_resnet50_2"
    ).split()
}
VISION |= {
    "inception_v3": (1, 3, 299, 299),
    "segmentation.deeplabv3_mobilenet_v3_large": (1, 3, 160, 160),
    "segmentation.fcn_resnet50": (1, 3, 128, 128),
    "segmentation.lraspp_mobilenet_v3_large": (1, 3, 160, 160),
    "video.mc3_18": (1, 3, 8, 64, 64),
    "video.r2plus1d_18": (1, 3, 8, 64, 64),
    "video.s3d": (1, 3, 16, 64, 64),
    "video.mvit_v2_s": (1, 3, 16, 224, 224),
    "video.swin3d_t": (1, 3, 8, 64, 64),
    "detection.ssdlite320_mobilenet_v3_large": (1, 3, 320, 320),
    "detection.retinanet_resnet50_fpn": (1, 3, 160, 160),
    "detection.fasterrcnn_mobilenet_v3_large_320_fpn": (1, 3, 160, 160),
}

# What makes a configuration small; a configuration takes the names that it knows. Widths stay what heads divide.
SMALL = dict(
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    vocab_size=500,
    max_position_embeddings=128,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    num_key_value_heads=2,
    head_dim=16,
    embedding_size=64,
)
PAIR = dict(
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    decoder_start_token_id=1,
)
T5 = dict(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_decoder_layers=2, num_heads=4, decoder_start_token_id=1)
TEXT = {
    "bert": {},
    "roberta": {},
    "albert": {},
    "electra": {},
    "distilbert": dict(dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "deberta": dict(pos_att_type=["c2p", "p2c"], relative_attention=True),
    "deberta-v2": dict(pos_att_type=["c2p", "p2c"], relative_attention=True, position_buckets=16),
    "xlm": dict(emb_dim=64, n_layers=2, n_heads=4),
    "xlnet": dict(d_model=64, n_layer=2, n_head=4, d_inner=128),
    "mpnet": {},
    "funnel": dict(d_model=64, block_sizes=[1, 1], n_head=4, d_head=16, d_inner=128),
    "longformer": dict(attention_window=8),
    "big_bird": dict(attention_type="original_full"),
    "nystromformer": dict(num_landmarks=4, segment_means_seq_len=16),
    "convbert": dict(head_ratio=1),
    "squeezebert": {},
    "mobilebert": dict(intra_bottleneck_size=32, true_hidden_size=32),
    "fnet": {},
    "canine": {},
    "ernie": {},
    "layoutlm": {},
    "megatron-bert": {},
    "rembert": dict(input_embedding_size=64),
    "roformer": {},
    "xmod": dict(default_language="en_XX"),
    "modernbert": dict(global_attn_every_n_layers=2),
    "ibert": {},
    "nomic_bert": {},
    "gpt2": dict(n_embd=64, n_layer=2, n_head=4, n_positions=128),
    "gpt_neo": dict(num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]]),
    "gpt_neox": {},
    "gptj": dict(n_embd=64, n_layer=2, n_head=4, rotary_dim=8),
    "codegen": dict(n_embd=64, n_layer=2, n_head=4, rotary_dim=8),
    "opt": dict(ffn_dim=128, word_embed_proj_dim=64),
    "bloom": dict(n_layer=2, n_head=4),
    "llama": {},
    "mistral": {},
    "qwen2": {},
    "qwen3": {},
    "gemma": {},
    "gemma2": {},
    "gemma3_text": {},
    "phi": {},
    "phi3": {},
    "falcon": {},
    "mpt": dict(d_model=64, n_layers=2, n_heads=4),
    "stablelm": {},
    "cohere": {},
    "olmo": {},
    "olmo2": {},
    "starcoder2": {},
    "granite": {},
    "nemotron": {},
    "glm": {},
    "persimmon": {},
    "smollm3": {},
    "mixtral": dict(num_local_experts=4),
    "qwen2_moe": dict(num_experts=4, moe_intermediate_size=32, shared_expert_intermediate_size=32),
    "olmoe": dict(num_experts=4),
    "gpt_oss": dict(num_local_experts=4),
    "mamba": dict(state_size=8),
    "mamba2": dict(num_heads=8, head_dim=16, state_size=8, n_groups=2, chunk_size=8),
    "rwkv": dict(attention_hidden_size=64, context_length=64),
    "recurrent_gemma": dict(lru_width=64),
    "falcon_mamba": dict(state_size=8),
}
PAIRS = {
    "t5": T5,
    "mt5": T5,
    "umt5": T5,
    "longt5": T5,
    "bart": PAIR,
    "mbart": PAIR,
    "pegasus": PAIR,
    "marian": PAIR | dict(decoder_vocab_size=500),
    "m2m_100": PAIR,
    "blenderbot": PAIR,
    "led": PAIR | dict(attention_window=8),
    "prophetnet": dict(
        num_encoder_layers=2,
        num_decoder_layers=2,
        num_encoder_attention_heads=4,
        num_decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
    ),
}
PIXELS = dict(image_size=64, patch_size=16)
PICTURES = {
    "vit": PIXELS,
    "deit": PIXELS,
    "beit": PIXELS,
    "dinov2": PIXELS | dict(patch_size=16),
    "vit_msn": PIXELS,
    "swin": dict(image_size=64, embed_dim=32, depths=[1, 1], num_heads=[2, 4], window_size=4),
    "swinv2": dict(image_size=64, embed_dim=32, depths=[1, 1], num_heads=[2, 4], window_size=4),
    "convnext": dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1]),
    "convnextv2": dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1]),
    "poolformer": dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1]),
    "pvt": dict(image_size=64),
    "pvt_v2": dict(image_size=64),
    "cvt": dict(),
    "levit": dict(image_size=64),
    "mobilevit": dict(image_size=64),
    "mobilevitv2": dict(image_size=64),
    "segformer": dict(),
    "regnet": {},
    "resnet": {},
    "bit": {},
    "focalnet": dict(image_size=64, embed_dim=32, depths=[1, 1, 1, 1]),
    "hiera": dict(image_size=[64, 64]),
    "mobilenet_v1": {},
    "mobilenet_v2": {},
    "efficientnet": {},
    "yolos": dict(image_size=[64, 64]),
    "siglip_vision_model": PIXELS,
    "clip_vision_model": PIXELS,
    "glpn": dict(),
    "swiftformer": dict(),
    "ijepa": PIXELS,
    "dinov3_vit": PIXELS,
    "textnet": {},
    "swin2sr": dict(image_size=16, embed_dim=32, depths=[1, 1], num_heads=[2, 4], window_size=4),
    "data2vec-vision": PIXELS,
}
AUDIO = dict(
    conv_dim=(16, 16, 16),
    conv_kernel=(10, 3, 3),
    conv_stride=(5, 2, 2),
    num_feat_extract_layers=3,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4,
)
SOUNDS = {
    "wav2vec2": AUDIO,
    "hubert": AUDIO,
    "wavlm": AUDIO,
    "unispeech": AUDIO,
    "unispeech-sat": AUDIO,
    "data2vec-audio": AUDIO | dict(conv_dim=(16, 16, 16)),
    "sew": AUDIO | dict(squeeze_factor=2),
    "wav2vec2-conformer": AUDIO,
}


def cases():
    """Names of all architectures: `vision/...` of torchvision, the others of transformers."""
    groups = {"vision": VISION, "text": TEXT, "pair": PAIRS, "picture": PICTURES, "sound": SOUNDS}
    return [f"{group}/{name}" for group, members in groups.items() for name in members]


def torchvision_model(name):
    import torch
    import torchvision

    module = torchvision.models
    for part in name.split(".")[:-1]:
        module = getattr(module, part)
    options = {"weights_backbone": None} if name.startswith(("detection", "segmentation")) else {}
    if name in ("googlenet", "inception_v3"):
        options = {"init_weights": True}
    return getattr(module, name.split(".")[-1])(weights=None, **options), {"x": torch.rand(VISION[name])}


def transformers_model(group, name):
    import torch
    from transformers import AutoConfig, AutoModel

    options = {"text": TEXT, "pair": PAIRS, "picture": PICTURES, "sound": SOUNDS}[group][name]
    known = AutoConfig.for_model(name)
    small = {k: v for k, v in SMALL.items() if hasattr(known, k) and not (group == "picture" and not isinstance(getattr(known, k), int))}
    config = AutoConfig.for_model(name, **small | options)
    config.use_cache = False
    torch.manual_seed(7)
    model = AutoModel.from_config(config)
    if group == "picture":
        size = getattr(config, "image_size", 64)
        size = size if isinstance(size, int) else size[0]
        return model, {"pixel_values": torch.rand(1, 3, size, size)}
    if group == "sound":
        return model, {"input_values": torch.rand(1, 4000)}
    ids = torch.randint(3, 400, (2, 16))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if name in ("mamba", "mamba2", "rwkv", "fnet", "falcon_mamba"):
        del inputs["attention_mask"]
    return model, inputs | ({"decoder_input_ids": torch.randint(3, 400, (2, 8))} if group == "pair" else {})


def tensors_of(result):
    """The floating tensors of a model's answer, whatever it wraps them in; caches are left out."""
    import torch

    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        return [t for key, value in result.items() if "past" not in key and "cache" not in key for t in tensors_of(value)]
    return [t for value in result for t in tensors_of(value)] if isinstance(result, (list, tuple)) else []


def export(case, exporter, path):
    """Writes one ONNX file; run in a process of its own."""
    import torch

    group, name = case.split("/")
    torch.manual_seed(7)
    model, inputs = torchvision_model(name) if group == "vision" else transformers_model(group, name)

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *values):
            if group == "vision":
                return tuple(tensors_of(self.model(*values)))
            return tuple(tensors_of(self.model(**dict(zip(inputs, values)))))

    with torch.no_grad():
        torch.onnx.export(
            Plain().eval(),
            tuple(inputs.values()),
            str(path),
            input_names=list(inputs),
            dynamo=exporter == "dynamo",
            **({"external_data": False} if exporter == "dynamo" else {"opset_version": 18}),
        )


def run_export(case, arguments):
    path = arguments.folder / f"{case.replace('/', '-')}.{arguments.exporter}.onnx"
    if path.exists():
        return path, ""
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--export", case, "--exporter", arguments.exporter, "--folder", arguments.folder],
            capture_output=True,
            text=True,
            timeout=arguments.timeout,
        )
    except subprocess.TimeoutExpired:
        return None, f"no export in {arguments.timeout} s"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return (path, "") if done.returncode == 0 and path.exists() else (None, (lines or ["no file"])[-1][:200])


def run_check(path, arguments):
    """The row of tests/gpu/against_onnxruntime.py for one model."""
    from against_onnxruntime import DIMS, check, is_good

    options = types.SimpleNamespace(
        build=arguments.build, device=arguments.device, level=arguments.level, flags=[], ids=400, timeout=arguments.timeout
    )
    try:
        row = check(options, path, DIMS)
    except Exception as error:  # the judge's, or a time limit
        row = {"model": path.stem, "error": f"{type(error).__name__}: {error}"[-300:]}
    row["good"] = is_good(row, 1e-4)
    return row


def one(case, arguments):
    path, reason = run_export(case, arguments)
    if path is None:
        return {"model": case, "not_exported": reason, "good": True}
    return run_check(path, arguments) if arguments.build else {"model": case, "good": True}


def line_of(row):
    if "not_exported" in row:
        return f"--  {row['model']:44} not exported: {row['not_exported']}"
    errors = [e if isinstance(e, float) else float("inf") for e in row.get("errors", {}).values()]
    return (
        f"{'ok ' if row['good'] else 'BAD'} {row['model']:44} error {max(errors, default=float('nan')):.1e} {row.get('ms') or 0:9.3f} ms  "
        f"reference: {', '.join(row.get('host', [])) or '-'}  {row.get('error', '')}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--exporter", default="dynamo", choices=["dynamo", "script"])
    parser.add_argument("--level", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--export", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.folder = arguments.folder or arguments.build / "architectures"
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.export:
        return export(
            arguments.export, arguments.exporter, arguments.folder / f"{arguments.export.replace('/', '-')}.{arguments.exporter}.onnx"
        )
    rows = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(lambda case: one(case, arguments), [c for c in cases() if arguments.only in c]):
            rows.append(row)
            print(line_of(row), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    bad = [row["model"] for row in rows if not row["good"]]
    print(
        f"{sum('not_exported' not in row for row in rows)} models, {sum('not_exported' in row for row in rows)} not exported, {len(bad)} failed"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

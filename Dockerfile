# SPDX-License-Identifier: Apache-2.0
# docker build -t aotc . && docker run --rm -v "$PWD:/work" aotc model.onnx -o out
FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
      gcc libc6-dev make cmake python3 python3-venv \
      gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm \
    && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN python3 -m venv /opt/aotc && /opt/aotc/bin/pip install --no-cache-dir '/src[verify]' && rm -rf /src
ENV PATH=/opt/aotc/bin:$PATH
WORKDIR /work
ENTRYPOINT ["aotc"]

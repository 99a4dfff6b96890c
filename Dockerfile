# SPDX-License-Identifier: Apache-2.0
#
# CI has no Docker daemon and does not build this; `make deb`, which it rests on, is tested (tests/install).
#
# docker build -t lathe .
# docker run --rm -v "$PWD:/work" lathe trtexec --onnx=model.onnx --saveEngine=model.engine
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends git make ca-certificates
WORKDIR /lathe
COPY . .
RUN make deb

FROM debian:12
COPY --from=build /lathe/build/packages/lathe_*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/lathe_*.deb && rm -rf /tmp/*.deb /var/lib/apt/lists/*
WORKDIR /work
CMD ["lathe", "help"]

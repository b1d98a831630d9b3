# syntax=docker/dockerfile:1
# The reference operator: one static binary with its charts and watches.yaml, and nothing else in the image.

FROM docker.io/library/rust:1.95-alpine AS build
# ring and mimalloc compile some C and assembly.
RUN apk add --no-cache gcc musl-dev
# The image's own compiler is the pinned one; rust-toolchain.toml would fetch lint tools as well.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --bin memcached-operator \
    && install -D target/release/memcached-operator /out/memcached-operator

FROM scratch
COPY --from=build /out/memcached-operator /usr/local/bin/memcached-operator
COPY watches.yaml /opt/helm/watches.yaml
COPY helm-charts /opt/helm/helm-charts
ENV HOME=/opt/helm
WORKDIR /opt/helm
# By number, for Kubernetes can only check runAsNonRoot so.
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/memcached-operator", "run", "--watches-file=./watches.yaml"]

# syntax=docker/dockerfile:1
# The reference operator: a static binary, its charts and watches.yaml on an empty image.

FROM docker.io/library/rust:1.95-alpine AS build
# ring and mimalloc compile C and assembly.
RUN apk add --no-cache gcc musl-dev
# Use the image's compiler, which is the pinned version; rust-toolchain.toml would also download lint tools.
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
# Numeric, because Kubernetes can check runAsNonRoot only for a numeric user.
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/memcached-operator", "run", "--watches-file=./watches.yaml"]

# syntax=docker/dockerfile:1
# Two images: the reference operator (the default), and the target `helm-operator`, a base image for projects of operator-sdk's Helm plugin.

# What the base image is built on. One with a shell, such as ubi9-minimal, serves projects whose Dockerfile has RUN lines.
ARG BASE_IMAGE=scratch

FROM docker.io/library/rust:1.95-alpine AS source
# ring and mimalloc compile C and assembly.
RUN apk add --no-cache gcc musl-dev
# Use the image's compiler, which is the pinned version; rust-toolchain.toml would also download lint tools.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .

FROM source AS build-helm-operator
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package helm-operator --bin helm-operator \
    && install -D target/release/helm-operator /out/helm-operator

# As upstream's image: paths, user and environment, to which projects add watches.yaml and helm-charts.
FROM ${BASE_IMAGE} AS helm-operator
ENV HOME=/opt/helm USER_NAME=helm USER_UID=1001
COPY --from=build-helm-operator /out/helm-operator /usr/local/bin/helm-operator
WORKDIR ${HOME}
USER ${USER_UID}
ENTRYPOINT ["/usr/local/bin/helm-operator", "run", "--watches-file=./watches.yaml"]

FROM source AS build
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

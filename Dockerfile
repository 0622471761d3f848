# syntax=docker/dockerfile:1
# A static binary in an empty image, for linux/amd64 and linux/arm64:
#   docker buildx build --platform linux/amd64,linux/arm64 -t kerf:0.1.0 .
# The image has the provider aws, which is the default there (docs/aws.md). Compiling the SDK of EC2 takes about 8 GiB of memory.
# Every platform is compiled on a builder of that platform: no cross compiler is needed, emulation works but is slow.

ARG RUST_VERSION=1.95

# On Alpine the default target is musl, which links statically.
FROM rust:${RUST_VERSION}-alpine AS build
# A C compiler for ring and mimalloc.
RUN apk add --no-cache build-base
WORKDIR /src
COPY . .
# The commit that the log and the metrics name; the build context has no repository.
ARG KERF_COMMIT=""
ARG TARGETARCH
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,id=kerf-target-${TARGETARCH},target=/src/target \
    if [ -n "${KERF_COMMIT}" ]; then export KERF_COMMIT; else unset KERF_COMMIT; fi \
 && cargo build --locked --profile dist --package kerf-cli --bin kerf --features aws \
 && cp target/dist/kerf /kerf

FROM scratch
COPY --from=build /kerf /kerf
COPY --from=build /src/LICENSE /LICENSE
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/kerf", "controller"]

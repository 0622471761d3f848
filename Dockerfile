# syntax=docker/dockerfile:1
# A static binary in an empty image, for linux/amd64 and linux/arm64:
#   docker buildx build --platform linux/amd64,linux/arm64 -t kerf:0.1.0 .
# The image has the provider aws, which is the default there (docs/aws.md). Compiling the SDK of EC2 takes about 12 GiB of memory.
# Every platform is compiled on a builder of that platform: no cross compiler is needed, emulation works but is slow.

ARG RUST_VERSION=1.95

# On Alpine the default target is musl, which links statically.
FROM rust:${RUST_VERSION}-alpine AS build
# A C compiler for ring and mimalloc; a linker that keeps one of equal functions.
RUN apk add --no-cache build-base lld
WORKDIR /src
COPY . .
# The commit that the log and the metrics name; the build context has no repository.
ARG KERF_COMMIT=""
ARG TARGETARCH
# The arguments of rustc make the binary smaller: no symbols, one of equal functions, and packed relocations, which musl reads since 1.2.4.
# The test writes what the binary is made of, and the licences of these packages; it asks cargo for packages of tests, too, so all are downloaded.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,id=kerf-target-${TARGETARCH},target=/src/target \
    if [ -n "${KERF_COMMIT}" ]; then export KERF_COMMIT; else unset KERF_COMMIT; fi \
 && cargo rustc --locked --profile dist --package kerf-cli --bin kerf --features aws -- -C strip=symbols \
      -C link-arg=-fuse-ld=lld -C link-arg=-Wl,--icf=all -C link-arg=-Wl,-z,pack-relative-relocs \
 && cp target/dist/kerf /kerf \
 && cargo fetch --locked --target "$(rustc --print host-tuple)" \
 && cargo test --locked --package kerf-tidy --test tidy -- --ignored writes_the_bill_of_materials \
 && cp target/THIRD-PARTY-LICENSES.txt target/kerf.cdx.json /

FROM scratch
COPY --from=build /kerf /kerf
COPY --from=build /src/LICENSE /LICENSE
COPY --from=build /THIRD-PARTY-LICENSES.txt /THIRD-PARTY-LICENSES.txt
COPY --from=build /kerf.cdx.json /kerf.cdx.json
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/kerf", "controller"]

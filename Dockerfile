# hermes-bridge in a small image: built by cargo, run by a user without rights, everything it keeps in /data.
FROM rust:1-slim-bookworm AS build
WORKDIR /build
COPY Cargo.toml Cargo.lock bridge.toml ./
COPY src src
COPY adapter adapter
RUN cargo build --release --locked

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin bridge \
    && install -d -m 700 -o bridge -g bridge /data
COPY --from=build /build/target/release/hermes-bridge /usr/local/bin/hermes-bridge
# ./bridge.toml is found here if one is mounted, and `data` below it is the volume.
WORKDIR /
USER bridge
VOLUME /data
EXPOSE 8787
HEALTHCHECK --interval=30s --timeout=6s --start-period=10s CMD ["hermes-bridge", "healthcheck", "--url", "http://127.0.0.1:8787"]
ENTRYPOINT ["hermes-bridge"]
CMD ["serve", "--listen", "0.0.0.0:8787"]

# cmpe as a service: slim, everything compiled ahead, not root.
#   docker build -t cmpe .
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/problem:/problem:ro" cmpe
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml hatch_build.py README.md LICENSE CHANGELOG.md CITATION.cff constraints.txt ./
COPY src src
RUN python -m venv /opt/cmpe \
 && /opt/cmpe/bin/pip install --no-cache-dir -c constraints.txt '.[serve]'

FROM python:3.12-slim
COPY --from=build /opt/cmpe /opt/cmpe
RUN useradd --system --create-home --uid 10001 cmpe
USER cmpe
# Compiled code is for one kind of processor: it is kept where the user may add to it, and what
# another processor needs is compiled again on its first use (about a minute).
ENV PATH=/opt/cmpe/bin:$PATH NUMBA_CACHE_DIR=/home/cmpe/cache
RUN cmpe compile --workers 2
EXPOSE 8000
HEALTHCHECK --start-period=120s CMD ["python", "-c", \
  "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health')"]
ENTRYPOINT ["cmpe", "serve", "--host", "0.0.0.0"]
CMD ["/problem"]

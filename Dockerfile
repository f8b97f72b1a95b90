# Serves a model on a CPU, without PyTorch:
#
#   docker build --tag dragoman .
#   docker run --publish 127.0.0.1:5000:5000 --volume ./run:/model:ro dragoman

FROM python:3.12-slim AS build
WORKDIR /src
# The machine code of the search is compiled here and linked by a C compiler.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY setup.py pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY dragoman dragoman
RUN python -m venv /opt/dragoman
RUN /opt/dragoman/bin/pip install --no-cache-dir --no-compile --constraint constraints.txt '.[serve]'
RUN /opt/dragoman/bin/pip uninstall --yes pip

FROM python:3.12-slim
COPY --from=build /opt/dragoman /opt/dragoman
RUN useradd --system --create-home --home-dir /var/cache/dragoman dragoman
USER dragoman
ENV PATH=/opt/dragoman/bin:$PATH XDG_CACHE_HOME=/var/cache/dragoman
EXPOSE 5000
STOPSIGNAL SIGTERM
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:5000/health', timeout=5)"]
ENTRYPOINT ["dragoman", "serve", "--host", "0.0.0.0"]
CMD ["/model"]

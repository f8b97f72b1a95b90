"""Serves one or more translators over HTTP, through APIs that existing clients already use.

`cli/serve.py` builds a `Service`, wraps it with `make_app`, and runs both with `http/server.py`. A request takes this
way:

1. `http/server.py`, `http/connections.py` and `http/protocol.py`: uvicorn's server and connections, with limits of
   number and time.
2. `http/middleware.py`: finds the client behind a proxy (`http/forwarding.py`), and logs each request.
   `http/endpoint.py`: refuses short requests early if the queue is full, reads the body (`http/bodies.py`) and checks
   the key (`http/keys.py`).
3. `apis/`: one handler per path, chosen in `app.py`, makes a `TranslationRequest` of the fields.
4. `service.py`: splits each text into parts (`documents.py`), detects its language if needed, and finds the models
   (`models.py`).
5. `batcher.py`: puts the parts in batches with those of other requests, or refuses them.
6. `apis/` again: renders the answers as JSON. `Refused` errors become JSON with their status in `http/endpoint.py`.

Files (`files.py`) use the same batcher, in the background and without a deadline.

| thread | what runs there |
|---|---|
| main | the event loop: everything that is not below |
| translate, one per lane | batches through the models, each on one core |
| files, one per client | reading, joining and writing uploaded files |
| inspect, one | inspections of a translation |
| split, one | splitting and detecting long texts, in turns of 10,000 characters |
| asyncio's default pool | loading the detector |

Queues and limits are only changed in the event loop, so they need no locks.
"""

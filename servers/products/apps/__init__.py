"""Applications that run inside the environments of server products, and import nothing of servemark.

Each is copied as `app.py` beside `onnx_model.py` and `job.json`, which says what is served, and where.
"""

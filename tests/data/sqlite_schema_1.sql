BEGIN TRANSACTION;
CREATE TABLE cell (
  ordinal integer primary key,                  -- the order of enrolment
  fingerprint text not null unique,
  id text not null,
  path text not null unique,                    -- allotted once, never changed
  lane integer not null references lane (number),
  priority integer not null,
  state text not null default 'pending' check (state in (
    'pending', 'running', 'success', 'partial', 'failed', 'skipped', 'cancelled')),
  ready real,                                   -- end of the back-off; null: it may be claimed
  attempt integer not null default 0,           -- claims so far
  tries integer not null default 0,             -- tries used up
  token integer not null default 0,             -- the fencing number; only ever grows
  ended_token integer not null default 0,       -- of the last attempt that was finished
  runner text not null default '',              -- who claimed it last
  expires real,                                 -- end of the lease of a running cell
  outcome integer references event (seq)        -- the event of the last finish
);
INSERT INTO "cell" VALUES(1,'a2af47469c7422170f4a156cefe882eb7f0333df0c19faa369b16f2d101345d0','quick/dense/mock_benchmark','quick/dense/mock_benchmark',1,0,'success',NULL,1,1,1,1,'6f02a7140c2c3b801ba9987563910dfd',NULL,10);
INSERT INTO "cell" VALUES(2,'3b4941b7af9683f53674251f7fec5e4f9c5ab08048462ea3e4c21671fb54b9a9','quick/dense/recall_128','quick/dense/recall_128',1,0,'success',NULL,1,1,1,1,'6f02a7140c2c3b801ba9987563910dfd',NULL,8);
INSERT INTO "cell" VALUES(3,'441ce3cdac4c77edb7576ebd7f524c915f405c84313451e88bac6cc5308c55d8','quick/dense/recall_256','quick/dense/recall_256',1,0,'success',NULL,1,1,1,1,'6f02a7140c2c3b801ba9987563910dfd',NULL,9);
CREATE TABLE event (
  seq integer primary key,
  at real not null,
  kind text not null,
  fingerprint text not null,
  data text not null
);
INSERT INTO "event" VALUES(1,1.79546335556575918203e+09,'campaign_told','','{"name": "earlier", "results": "", "placement": "warm-first", "phases": [], "runners": {}}');
INSERT INTO "event" VALUES(2,1.79546335560559415815e+09,'enrolled','','{"new": 3, "changed": 0}');
INSERT INTO "event" VALUES(3,1.79546335561516451836e+09,'run_began','','{"runner": "6f02a7140c2c3b801ba9987563910dfd"}');
INSERT INTO "event" VALUES(4,1.79546335561877942084e+09,'runner_began','','{"runner": "6f02a7140c2c3b801ba9987563910dfd", "machine": "vm", "process": "7339@594390", "host": "vm", "folder": "4562fcadc00649548217abb8c605298a"}');
INSERT INTO "event" VALUES(5,1.7954633559223539829e+09,'claimed','a2af47469c7422170f4a156cefe882eb7f0333df0c19faa369b16f2d101345d0','{"attempt": 1, "token": 1, "runner": "6f02a7140c2c3b801ba9987563910dfd"}');
INSERT INTO "event" VALUES(6,1.79546335613858461383e+09,'claimed','3b4941b7af9683f53674251f7fec5e4f9c5ab08048462ea3e4c21671fb54b9a9','{"attempt": 1, "token": 1, "runner": "6f02a7140c2c3b801ba9987563910dfd"}');
INSERT INTO "event" VALUES(7,1.79546335615744113924e+09,'claimed','441ce3cdac4c77edb7576ebd7f524c915f405c84313451e88bac6cc5308c55d8','{"attempt": 1, "token": 1, "runner": "6f02a7140c2c3b801ba9987563910dfd"}');
INSERT INTO "event" VALUES(8,1.7954633562096278667e+09,'finished','3b4941b7af9683f53674251f7fec5e4f9c5ab08048462ea3e4c21671fb54b9a9','{"attempt": 1, "token": 1, "runner": "6f02a7140c2c3b801ba9987563910dfd", "outcome": {"state": "success", "digest": "a31e7a33d4624c973e7634a0bc094e0ffdc3873ee9e3105a8c09f18b3c854acc", "failure": null, "metrics": {"overall_score": 0.0, "samples": 2, "stderr": 0.0, "prompt_tokens": 29.0, "completion_tokens": 2.0, "seconds": 0.0}, "seconds": {"load": 0.016144984000675322, "benchmark": 0.00043529199956537923}, "host": "vm", "device": "cpu:1", "charged": true, "retry_in": null, "reported": {"samples": 2, "stderr": 0.0, "chance": 0.1}, "device_type": "cpu", "usage": {"seconds": 0.01802622200011683, "ram": 10981376}}}');
INSERT INTO "event" VALUES(9,1.79546335626558494565e+09,'finished','441ce3cdac4c77edb7576ebd7f524c915f405c84313451e88bac6cc5308c55d8','{"attempt": 1, "token": 1, "runner": "6f02a7140c2c3b801ba9987563910dfd", "outcome": {"state": "success", "digest": "aa9cbfd664c18c0b5b6337617f815cb6104ae50760abc9add18dcadd7f28b8e8", "failure": null, "metrics": {"overall_score": 0.0, "samples": 2, "stderr": 0.0, "prompt_tokens": 84.0, "completion_tokens": 2.0, "seconds": 0.0}, "seconds": {"load": 9.559800037095556e-05, "benchmark": 0.0003047130003324128}, "host": "vm", "device": "cpu:1", "charged": true, "retry_in": null, "reported": {"samples": 2, "stderr": 0.0, "chance": 0.1}, "device_type": "cpu", "usage": {"seconds": 0.004103736000615754, "ram": 10981376}}}');
INSERT INTO "event" VALUES(10,1.79546335646542382243e+09,'finished','a2af47469c7422170f4a156cefe882eb7f0333df0c19faa369b16f2d101345d0','{"attempt": 1, "token": 1, "runner": "6f02a7140c2c3b801ba9987563910dfd", "outcome": {"state": "success", "digest": "f1cef2b4c17ef4ca974c0055269da6d9449c977df4c252e9fa161bdca4cfd897", "failure": null, "metrics": {"overall_score": 0.0, "samples": 5, "stderr": 0.0, "prompt_tokens": 202.0, "completion_tokens": 5.0, "seconds": 0.0}, "seconds": {"load": 0.5057808849996945, "benchmark": 0.0005005750008422183}, "host": "vm", "device": "cpu:0", "charged": true, "retry_in": null, "reported": {"samples": 5, "stderr": 0.0}, "device_type": "cpu", "usage": {"seconds": 0.5083610700003192, "ram": 10870784}}}');
INSERT INTO "event" VALUES(11,1.7954633564921832085e+09,'runner_ended','','{"runner": "6f02a7140c2c3b801ba9987563910dfd"}');
INSERT INTO "event" VALUES(12,1.79546335653464269634e+09,'results_told','','{}');
CREATE TABLE lane (
  number integer primary key,
  load_key text not null,
  gpus integer not null,
  vram integer not null,
  unique (load_key, gpus, vram)
);
INSERT INTO "lane" VALUES(1,'5cb52c28b5d5e615',0,0);
CREATE TABLE meta (
  key text primary key,
  value text not null
) without rowid;
INSERT INTO "meta" VALUES('campaign','earlier');
INSERT INTO "meta" VALUES('schema','1');
CREATE TABLE spec (
  ordinal integer primary key references cell (ordinal),
  spec text not null,
  terms text not null
);
INSERT INTO "spec" VALUES(1,'{"model": {"name": "quick", "adapter": "mock", "digest": "mock:quick", "model_kwargs": {}, "tokenizer_kwargs": {}}, "config": {"name": "dense", "attention": [], "everywhere": false}, "workload": {"benchmark": "mock_benchmark", "version": "1", "subset": null, "params": {"rows": 5}, "data_digest": "", "generation": {"max_new_tokens": 16, "temperature": 0}, "batch_size": 1, "limit": null, "called": ""}, "repeat": 0, "repeats": false}','{"need": {"gpus": 0, "vram": 0}, "limits": {"cell": null, "tries": 3, "generation": null, "stuck": null, "ram": null, "disk": null}, "priority": 0, "model": {"source": "quick", "python": ""}, "workload": {"outside": {}}}');
INSERT INTO "spec" VALUES(2,'{"model": {"name": "quick", "adapter": "mock", "digest": "mock:quick", "model_kwargs": {}, "tokenizer_kwargs": {}}, "config": {"name": "dense", "attention": [], "everywhere": false}, "workload": {"benchmark": "recall", "version": "1", "subset": "128", "params": {"samples": 2, "records": 16, "depths": [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95]}, "data_digest": "", "generation": {"max_new_tokens": 1, "temperature": 0}, "batch_size": 1, "limit": null, "called": ""}, "repeat": 0, "repeats": false}','{"need": {"gpus": 0, "vram": 0}, "limits": {"cell": null, "tries": 3, "generation": null, "stuck": null, "ram": null, "disk": null}, "priority": 0, "model": {"source": "quick", "python": ""}, "workload": {"outside": {}}}');
INSERT INTO "spec" VALUES(3,'{"model": {"name": "quick", "adapter": "mock", "digest": "mock:quick", "model_kwargs": {}, "tokenizer_kwargs": {}}, "config": {"name": "dense", "attention": [], "everywhere": false}, "workload": {"benchmark": "recall", "version": "1", "subset": "256", "params": {"samples": 2, "records": 16, "depths": [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95]}, "data_digest": "", "generation": {"max_new_tokens": 1, "temperature": 0}, "batch_size": 1, "limit": null, "called": ""}, "repeat": 0, "repeats": false}','{"need": {"gpus": 0, "vram": 0}, "limits": {"cell": null, "tries": 3, "generation": null, "stuck": null, "ram": null, "disk": null}, "priority": 0, "model": {"source": "quick", "python": ""}, "workload": {"outside": {}}}');
CREATE INDEX cell_claimable on cell (lane, priority desc, ordinal)
  where state = 'pending' and ready is null;
CREATE INDEX cell_backing_off on cell (ready)
  where state = 'pending' and ready is not null;
CREATE INDEX cell_running on cell (expires)
  where state = 'running';
COMMIT;

-- The common subset of SQLite and PostgreSQL: ids and enums TEXT, times BIGINT milliseconds UTC,
-- JSON as TEXT, digests as lowercase hex TEXT. A migration that was merged is never edited.

CREATE TABLE deliveries (
    forge TEXT NOT NULL CHECK (forge IN ('github', 'local')),
    id TEXT NOT NULL,
    event TEXT NOT NULL,
    body BYTEA NOT NULL,
    body_digest TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('received', 'decided', 'failed')),
    attempts BIGINT NOT NULL DEFAULT 0,
    fence BIGINT NOT NULL DEFAULT 0,
    not_before BIGINT NOT NULL DEFAULT 0,
    node TEXT,
    decision TEXT,
    last_error TEXT,
    decided_at BIGINT,
    PRIMARY KEY (forge, id)
);
CREATE INDEX deliveries_waiting ON deliveries (not_before, received_at) WHERE state = 'received';
CREATE INDEX deliveries_received ON deliveries (received_at);

CREATE TABLE jobs (
    id TEXT NOT NULL PRIMARY KEY,
    spec TEXT NOT NULL,
    forge TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    number BIGINT,
    head TEXT NOT NULL,
    address TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX jobs_subject ON jobs (forge, owner, name, number);

CREATE TABLE runs (
    id TEXT NOT NULL PRIMARY KEY,
    job TEXT NOT NULL REFERENCES jobs (id),
    semantic_key TEXT NOT NULL UNIQUE,
    lane TEXT,
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'suspended', 'finished')),
    detail TEXT NOT NULL,
    fence BIGINT NOT NULL DEFAULT 0,
    lease_until BIGINT NOT NULL DEFAULT 0,
    node TEXT,
    halt TEXT,
    halt_requested_at BIGINT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    updated_at BIGINT NOT NULL,
    finished_at BIGINT
);
CREATE INDEX runs_waiting ON runs (created_at, id) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX runs_one_per_lane ON runs (lane) WHERE state = 'running';
CREATE INDEX runs_job ON runs (job);
CREATE INDEX runs_created ON runs (created_at);

CREATE TABLE journal (
    run TEXT NOT NULL REFERENCES runs (id),
    seq BIGINT NOT NULL,
    entry BYTEA NOT NULL,
    signature BYTEA NOT NULL,
    digest TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE steps (
    run TEXT NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    iteration BIGINT NOT NULL,
    state TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (run, seq),
    FOREIGN KEY (run, seq) REFERENCES journal (run, seq)
);

CREATE TABLE launches (
    id TEXT NOT NULL PRIMARY KEY,
    run TEXT NOT NULL REFERENCES runs (id),
    iteration BIGINT NOT NULL,
    agent TEXT NOT NULL,
    input TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('intended', 'started', 'settled', 'uncertain', 'adopted', 'abandoned')),
    detail TEXT NOT NULL,
    fence BIGINT NOT NULL,
    intended_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX launches_run ON launches (run, intended_at);

CREATE TABLE receipts (
    run TEXT NOT NULL REFERENCES runs (id),
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('open', 'apply', 'seal', 'authorize', 'push')),
    bytes BYTEA NOT NULL,
    signature BYTEA NOT NULL,
    digest TEXT NOT NULL,
    diff TEXT,
    at BIGINT NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE authorizations (
    id TEXT NOT NULL PRIMARY KEY,
    run TEXT NOT NULL REFERENCES runs (id),
    actor TEXT NOT NULL,
    role TEXT NOT NULL,
    origin TEXT NOT NULL UNIQUE,
    head TEXT NOT NULL,
    patch TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    spent_at BIGINT,
    result TEXT,
    settled_at BIGINT
);
CREATE INDEX authorizations_run ON authorizations (run, created_at);

CREATE TABLE outbox (
    id TEXT NOT NULL PRIMARY KEY,
    run TEXT REFERENCES runs (id),
    kind TEXT NOT NULL CHECK (kind IN ('check-run', 'comment', 'push')),
    address TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'sent', 'dead')),
    revision BIGINT NOT NULL DEFAULT 0,
    attempts BIGINT NOT NULL DEFAULT 0,
    fence BIGINT NOT NULL DEFAULT 0,
    not_before BIGINT NOT NULL DEFAULT 0,
    lease_until BIGINT NOT NULL DEFAULT 0,
    node TEXT,
    external_id TEXT,
    last_error TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX outbox_one_check_run ON outbox (run) WHERE kind = 'check-run' AND state = 'pending';
CREATE INDEX outbox_waiting ON outbox (created_at, id) WHERE state = 'pending';
CREATE INDEX outbox_run ON outbox (run, created_at);

CREATE TABLE check_runs (
    forge TEXT NOT NULL,
    external_id TEXT NOT NULL,
    run TEXT NOT NULL REFERENCES runs (id),
    PRIMARY KEY (forge, external_id)
);
CREATE INDEX check_runs_run ON check_runs (run);

CREATE TABLE repo_maps (
    tree TEXT NOT NULL,
    version TEXT NOT NULL,
    digest TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tree, version)
);

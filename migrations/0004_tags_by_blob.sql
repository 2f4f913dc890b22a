-- What was read of a file is kept by its blob, so that another tree of the repository reads only what changed.
DROP TABLE repo_maps;
CREATE TABLE repo_maps (
    repository TEXT NOT NULL,
    version TEXT NOT NULL,
    blob TEXT NOT NULL,
    tags TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (repository, version, blob)
);
CREATE INDEX repo_maps_created ON repo_maps (repository, created_at);

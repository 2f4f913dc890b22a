-- Whose run it is and when its turn comes, so that no repository and no person keeps others waiting. `turn` is
-- what the next runs of the same repository or person come after, `place` the order of claims; both are
-- milliseconds, as times are.
ALTER TABLE runs ADD COLUMN repository TEXT;
ALTER TABLE runs ADD COLUMN actor TEXT;
ALTER TABLE runs ADD COLUMN turn BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN place BIGINT NOT NULL DEFAULT 0;
-- Which of the repository's slots a run holds, where their number is bounded.
ALTER TABLE runs ADD COLUMN slot BIGINT;
DROP INDEX runs_waiting;
CREATE INDEX runs_waiting ON runs (place, created_at, id) WHERE state IN ('queued', 'running');
CREATE INDEX runs_repository ON runs (repository, turn) WHERE state IN ('queued', 'running');
CREATE INDEX runs_actor ON runs (actor, turn) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX runs_one_per_slot ON runs (repository, slot) WHERE state = 'running';
-- What was asked for of late, by repository and by person: what daily budgets count.
CREATE INDEX runs_repository_created ON runs (repository, created_at);
CREATE INDEX runs_actor_created ON runs (actor, created_at);

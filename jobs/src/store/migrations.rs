//! The numbered SQL files, part of the program.

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Each file of `migrations/`, by its number. A merged one is never edited: its checksum is kept.
const FILES: [(i64, &str, &str); 5] = [
    (1, "first", include_str!("../../../migrations/0001_first.sql")),
    (2, "packed bodies", include_str!("../../../migrations/0002_packed_bodies.sql")),
    (3, "verdicts", include_str!("../../../migrations/0003_verdicts.sql")),
    (4, "tags by blob", include_str!("../../../migrations/0004_tags_by_blob.sql")),
    (5, "fair turns", include_str!("../../../migrations/0005_fair_turns.sql")),
];

/// What brings either database up to date.
pub(super) fn migrator() -> Migrator {
    let migrations = FILES
        .into_iter()
        .map(|(number, name, sql)| {
            Migration::new(number, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
        })
        .collect();
    Migrator::with_migrations(migrations)
}

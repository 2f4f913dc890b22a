//! The connection: one enum over two databases, and the macros that write a statement once for both.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Postgres, Sqlite, Transaction};

use super::error::StoreError;
use super::wake::{Bells, Listener, Topic, Waiter};

/// Expands an expression once per database, with the open connection under the given name.
macro_rules! on {
    ($tx:expr, $connection:ident => $body:expr) => {
        match $tx.connection() {
            $crate::store::db::Connection::Sqlite($connection) => $body,
            $crate::store::db::Connection::Postgres($connection) => $body,
        }
    };
}

/// Executes a statement; gives the number of rows that it changed.
macro_rules! execute {
    ($tx:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        on!($tx, connection => sqlx::query($sql)
            $(.bind($value))*
            .execute(&mut **connection)
            .await
            .map(|done| done.rows_affected()))
    };
}

/// Gives the one row of a statement as a tuple, or `None`.
macro_rules! fetch_optional {
    ($tx:expr, $row:ty, $sql:expr $(, $value:expr)* $(,)?) => {
        on!($tx, connection => sqlx::query_as::<_, $row>($sql)
            $(.bind($value))*
            .fetch_optional(&mut **connection)
            .await)
    };
}

/// Gives all rows of a statement as tuples.
macro_rules! fetch_all {
    ($tx:expr, $row:ty, $sql:expr $(, $value:expr)* $(,)?) => {
        on!($tx, connection => sqlx::query_as::<_, $row>($sql)
            $(.bind($value))*
            .fetch_all(&mut **connection)
            .await)
    };
}

/// SQLite takes one writer at a time; waiting in our own queue is fair and wakes at once.
const SQLITE_READERS: u32 = 4;
const SQLITE_BUSY: Duration = Duration::from_secs(30);
const SQLITE_MIGRATION_TRIES: u32 = 4;
const POSTGRES_CONNECTIONS: u32 = 16;
const ACQUIRE: Duration = Duration::from_secs(30);

/// A database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Db {
    pool: Pool,
    bells: Bells,
    /// Hears the other nodes; ends with the last clone. SQLite has no other nodes.
    _listener: Option<Arc<Listener>>,
}

#[derive(Clone, Debug)]
enum Pool {
    Sqlite { readers: SqlitePool, writer: SqlitePool },
    Postgres(PgPool),
}

/// The connection of one open transaction.
#[derive(Debug)]
pub(super) enum Connection {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

/// An open transaction; without `commit` nothing of it is kept.
#[derive(Debug)]
pub struct Tx {
    connection: Connection,
    bells: Bells,
    /// The topics to ring once the transaction is committed.
    rings: Vec<Topic>,
}

impl Db {
    /// Opens the database at `url` (`sqlite://..` makes the file; `postgres://..`) and brings its
    /// schema up to date.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let pool = if url.starts_with("sqlite:") {
            open_sqlite(url).await?
        } else if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            open_postgres(url).await?
        } else {
            return Err(StoreError::Url(without_password(url)));
        };
        migrate(&pool).await?;
        let bells = Bells::new();
        let listener = match &pool {
            Pool::Sqlite { .. } => None,
            Pool::Postgres(pool) => {
                let listener = Listener::start(pool, bells.clone()).await.map_err(StoreError::Open)?;
                Some(Arc::new(listener))
            }
        };
        Ok(Self { pool, bells, _listener: listener })
    }

    /// Begins a transaction that writes. On SQLite it holds the one write lock from the start, so
    /// that what it reads cannot change before it writes.
    pub async fn write(&self) -> Result<Tx, StoreError> {
        crate::fault::turn("before-write").await.map_err(sqlx::Error::Io)?;
        let connection = match &self.pool {
            Pool::Sqlite { writer, .. } => Connection::Sqlite(writer.begin_with("BEGIN IMMEDIATE").await?),
            Pool::Postgres(pool) => Connection::Postgres(pool.begin().await?),
        };
        Ok(Tx { connection, bells: self.bells.clone(), rings: Vec::new() })
    }

    /// Begins a transaction that only reads, and sees one moment throughout.
    pub async fn read(&self) -> Result<Tx, StoreError> {
        crate::fault::turn("before-read").await.map_err(sqlx::Error::Io)?;
        const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let connection = match &self.pool {
            Pool::Sqlite { readers, .. } => Connection::Sqlite(readers.begin().await?),
            Pool::Postgres(pool) => Connection::Postgres(pool.begin_with(SNAPSHOT).await?),
        };
        Ok(Tx { connection, bells: self.bells.clone(), rings: Vec::new() })
    }

    /// Hears of new work under `topic` from now on: register, then look, then wait.
    pub fn waiter(&self, topic: Topic) -> Waiter {
        self.bells.waiter(topic)
    }

    #[cfg(test)]
    pub(super) fn is_postgres(&self) -> bool {
        matches!(self.pool, Pool::Postgres(_))
    }

    /// Closes all connections, after what is under way.
    pub async fn close(&self) {
        match &self.pool {
            Pool::Sqlite { readers, writer } => {
                readers.close().await;
                writer.close().await;
            }
            Pool::Postgres(pool) => pool.close().await,
        }
    }
}

impl Tx {
    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Rings `topic` once this transaction is committed.
    pub(super) fn ring(&mut self, topic: Topic) {
        if !self.rings.contains(&topic) {
            self.rings.push(topic);
        }
    }

    /// Keeps all that was written, durably, and wakes who waits for it.
    pub async fn commit(self) -> Result<(), StoreError> {
        crate::fault::reach("before-commit").map_err(sqlx::Error::Io)?;
        match self.connection {
            Connection::Sqlite(transaction) => transaction.commit().await?,
            Connection::Postgres(mut transaction) => {
                for topic in &self.rings {
                    self.bells.tell_others(&mut transaction, *topic).await?;
                }
                transaction.commit().await?;
            }
        }
        for topic in self.rings {
            self.bells.ring(topic);
        }
        // What is lost here is the word that it was committed, and nothing of what was.
        crate::fault::reach("after-commit").map_err(sqlx::Error::Io)?;
        Ok(())
    }
}

/// Brings the schema up to date. PostgreSQL nodes wait for each other; on SQLite one that was
/// overtaken by another process fails, and finds at its next try that nothing is left to do.
async fn migrate(pool: &Pool) -> Result<(), StoreError> {
    let migrator = super::migrations::migrator();
    match pool {
        Pool::Sqlite { writer, .. } => {
            for _ in 1..SQLITE_MIGRATION_TRIES {
                if migrator.run(writer).await.is_ok() {
                    return Ok(());
                }
            }
            migrator.run(writer).await
        }
        Pool::Postgres(pool) => migrator.run(pool).await,
    }
    .map_err(StoreError::Migrate)
}

async fn open_sqlite(url: &str) -> Result<Pool, StoreError> {
    // Each connection would have a memory of its own, and a crash would lose what was answered 2xx.
    if url.contains(":memory:") || url.contains("mode=memory") {
        return Err(StoreError::Url(url.to_owned()));
    }
    let options = SqliteConnectOptions::from_str(url)
        .map_err(StoreError::Open)?
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(SQLITE_BUSY);
    let pool =
        |connections: u32| SqlitePoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE);
    // The writer comes first: it makes the file and its journal mode, which readers then find.
    let writer = pool(1).connect_with(options.clone()).await.map_err(StoreError::Open)?;
    let readers = pool(SQLITE_READERS).connect_lazy_with(options);
    Ok(Pool::Sqlite { readers, writer })
}

async fn open_postgres(url: &str) -> Result<Pool, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(StoreError::Open)?;
    let pool = PgPoolOptions::new()
        .max_connections(POSTGRES_CONNECTIONS)
        .acquire_timeout(ACQUIRE)
        .connect_with(options)
        .await
        .map_err(StoreError::Open)?;
    Ok(Pool::Postgres(pool))
}

/// The URL as an error may show it.
fn without_password(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(mut parsed) if parsed.password().is_some() => {
            if parsed.set_password(Some("***")).is_err() {
                return format!("{}:..", parsed.scheme());
            }
            parsed.to_string()
        }
        Ok(_) | Err(_) => url.to_owned(),
    }
}

#[cfg(test)]
mod tests;

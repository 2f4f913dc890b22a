//! Workspaces: a commit brought in, laid out as files, and read back as a tree.
//!
//! A workspace is where code of strangers ran. It is never touched by the git program: no index, no
//! hooks, no filters, no configuration of its own is read. Reading it back follows no link, opens no
//! device and stays under [`Bounds`]; the tree id that comes out is computed from the bytes alone.

use crate::edit;

mod bounds;
mod clone;
mod commits;
mod drift;
pub(crate) mod folder;
mod ignored;
mod local;
pub(crate) mod materialize;
mod objects;
pub mod path;
mod scan;
mod snapshot;
pub mod tree;
pub mod zlib;

pub use bounds::{Bounds, OverBound};
pub use clone::{CloneError, History, Provisioned, Want, clone};
pub use commits::Commit;
pub use drift::{Drift, drift};
pub use edit::diff::diff;
pub use folder::{Folder, FolderError};
pub use materialize::{MaterializeError, Materialized, materialize};
pub use objects::{Expected, NewCommit, Objects, ObjectsError};
pub use path::{PathRefused, TreePath};
pub use scan::{Note, Scan, ScanError, scan};
pub use snapshot::{Snapshot, SnapshotError, snapshot};
pub use tree::{BlobId, Entry, Mode, Tree, TreeError};

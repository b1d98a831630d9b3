//! Imports a release that helm-operator-plugins recorded in chunks: as the next revision, in a record that Helm reads too.

use super::uninstall::marks_of;
use super::{Environment, Error};
use crate::kube::{Owner, intern};
use crate::release::Status;
use crate::storage::{Marks, Written};

/// A release that was imported.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Its revision: the one after the newest in chunks, whose names are taken.
    pub version: u32,
    /// Its record.
    pub written: Written,
    /// Its marks; the objects are not owned yet.
    pub marks: Marks,
}

/// Imports a release that is recorded in chunks, as a record of our own; `None` if there are no chunks. Changes no object and keeps the chunks.
///
/// # Errors
/// The chunks cannot be read or decoded, or the record exceeds a Secret.
pub async fn import_chunked(env: &Environment<'_>) -> Result<Option<Imported>, Error> {
    let (namespace, name) = (&env.decoration.namespace, &env.decoration.release);
    let Some((mut release, newest)) = env.storage.chunked(namespace, name).await? else { return Ok(None) };
    let from = release.version;
    release.version = newest + 1;
    release.set_status(Status::Deployed, format!("Imported from the chunks of revision {from}"));
    let owner = env.decoration.owner.as_ref();
    let marks = Marks {
        owner: intern(owner.map_or("", |owner| &owner.uid)),
        owner_type: intern(&owner.map(Owner::annotated_type).unwrap_or_default()),
        ..marks_of(env, &release).await?
    };
    let written = env.storage.create(&release, &marks).await?;
    Ok(Some(Imported { version: release.version, written, marks }))
}

/// Returns the inventory of a release that is recorded in chunks; `None` if there are no chunks.
///
/// # Errors
/// The chunks cannot be read or decoded, or discovery fails.
pub async fn chunked_inventory(env: &Environment<'_>) -> Result<Option<Marks>, Error> {
    match env.storage.chunked(&env.decoration.namespace, &env.decoration.release).await? {
        Some((release, _)) => Ok(Some(marks_of(env, &release).await?)),
        None => Ok(None),
    }
}

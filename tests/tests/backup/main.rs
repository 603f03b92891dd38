//! Backups: what a place keeps of them, and clusters that are backed up and made of them again.

mod clusters;
mod places;

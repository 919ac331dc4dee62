//! Reading: which rows of the layers' indexes stand for the wanted chunks ([`locate`]), their
//! blocks ([`fetch`]), and the elements of these in their places ([`assemble`]).

mod assemble;
mod fetch;
mod locate;
mod sink;
mod warm;

pub(crate) use assemble::Request;
pub(crate) use locate::{Found, Trails, found};

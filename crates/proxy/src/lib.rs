//! The HTTP side of Larder: front ends, fills, the upstream pool, the admin interface.

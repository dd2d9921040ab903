"""Board meetings: directors assess, discuss and vote on a proposal; the daemon drives the phases."""

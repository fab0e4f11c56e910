-- The ledger of a job, or of one replay.  Times are seconds since 1970-01-01 UTC.

-- What the job knows of itself: identity, epoch of the newest instance, number of the last run, greatest
-- number of lanes, a recovery that has begun, the run after which published values are unknown.
CREATE TABLE job (
    name TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- A run whose plan is committed.  A run without its row has sent nothing.
CREATE TABLE run (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    plan TEXT NOT NULL,              -- digest of all planned documents
    planned REAL NOT NULL,
    ended REAL,                      -- when it was sent and acknowledged; NULL until then
    outcome TEXT,                    -- how it ended, as JSON
    idle INTEGER NOT NULL DEFAULT 0, -- 1: it found no change
    rejected INTEGER NOT NULL,       -- records
    refusals INTEGER NOT NULL DEFAULT 0, -- documents that a sink refused
    least INTEGER,                   -- the least and the greatest number among the positions of its records
    greatest INTEGER,
    manifest BLOB NOT NULL,          -- JSON, compressed
    records BLOB,                    -- rows of a small run, packed; NULL: they are files in its folder
    documents BLOB,
    lookups BLOB
) STRICT;
CREATE INDEX unfinished ON run (number) WHERE ended IS NULL;

-- Small texts of a run by name: documents that a sink refuses, documents that it may have already.
CREATE TABLE run_text (
    run INTEGER NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

-- The runs that have records of a key, by the hash of its text, for runs whose rows are in this file.
CREATE TABLE key_run (
    run INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    PRIMARY KEY (run, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX key_hash ON key_run (hash);

-- Small runs that ended within an hour: their rows are in the Parquet files of one folder.
CREATE TABLE hour (
    first INTEGER PRIMARY KEY,       -- the least and the greatest number of its runs
    last INTEGER NOT NULL,
    youngest REAL NOT NULL,          -- when the last of them ended
    least INTEGER,                   -- see run
    greatest INTEGER
) STRICT;

-- Files that belong to the states of sources.
CREATE TABLE file (
    path TEXT PRIMARY KEY,           -- below the folder of the ledger
    owner TEXT NOT NULL,             -- the folder of the state
    size INTEGER NOT NULL,
    digest TEXT NOT NULL             -- SHA-256
) STRICT, WITHOUT ROWID;
CREATE INDEX file_owner ON file (owner);

-- What a source remembers, out of reach of retention.
CREATE TABLE source (
    name TEXT PRIMARY KEY,
    origin TEXT,                        -- what is needed to read positions, as JSON
    epoch INTEGER NOT NULL DEFAULT 1,
    since INTEGER NOT NULL DEFAULT 1,   -- the first run that may have published in this epoch
    table_identity TEXT,
    published TEXT NOT NULL DEFAULT '{}', -- greatest published number by part, as JSON
    greatest INTEGER,                   -- the greatest record id that was read
    held TEXT NOT NULL DEFAULT '',      -- digest of the rows that wait for their time
    reported TEXT NOT NULL DEFAULT '[]' -- digests of rejected rows without a usable id, as JSON
) STRICT, WITHOUT ROWID;

-- The folders of the states that runs have left for a source.
CREATE TABLE state (
    source TEXT NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (source, run)
) STRICT, WITHOUT ROWID;

-- Files that were published.
CREATE TABLE published_file (
    source TEXT NOT NULL,
    path TEXT NOT NULL,
    entry TEXT NOT NULL,             -- size, times, digest, result of reading, as JSON
    PRIMARY KEY (source, path)
) STRICT, WITHOUT ROWID;

-- What other programs ask of the instance that follows the job: to poll, or to repair.
CREATE TABLE request (
    id INTEGER PRIMARY KEY,
    content TEXT NOT NULL,           -- JSON
    answer TEXT
) STRICT;

-- The topics that have documents of the job; a topic that was created again has another id.
CREATE TABLE topic (
    name TEXT PRIMARY KEY,
    id TEXT NOT NULL
) STRICT, WITHOUT ROWID;

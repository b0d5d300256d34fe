-- The set of records in KEYS[1] is a hash: 'format', and for each record '/' and its id. A record is its version, its end
-- in µs, which is 0 for none, and its value, with a space between them.
local format = redis.call('HGET', KEYS[1], 'format')
if format ~= '1' then
  local err = foreign(format, KEYS[1])
  if err then
    return err
  end
end

-- parse returns the version, and 1 if the record exists, of what is stored in a field; '' and false for a missing one.
-- It returns no version for what cannot be read.
local function parse(stored)
  if not stored then
    return '', false
  end
  local version, ends = string.match(stored, '^(%w+) (%d+) ')
  ends = tonumber(ends)
  return version, ends == 0 or ends and ends > now
end

-- forget lets a set without records go after the retention.
local function forget()
  if redis.call('HLEN', KEYS[1]) <= 1 then
    redis.pcall('PEXPIRE', KEYS[1], retention)
  end
end

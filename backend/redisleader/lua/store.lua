-- Every script starts with this: the server's clock, in µs, and how a record is read.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- How long a record outlives its lease, in ms, so that the fence and the spent token are remembered.
local retention = 604800000

-- Lua's own conversion of a number to a string keeps 14 digits, a µs value has 16.
local function digits(number)
  return string.format('%.0f', number)
end

-- foreign returns an error for a format that is not ours, which ends a script before any write.
local function foreign(format, key)
  if not format then
    if redis.call('EXISTS', key) == 1 then
      return redis.error_reply('LEADERFORMAT the key holds a foreign hash')
    end
  elseif format ~= '1' and string.sub(format, 1, 2) ~= '1.' then
    return redis.error_reply('LEADERFORMAT the record has format ' .. format .. ', this client knows format 1')
  end
end

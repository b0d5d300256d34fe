-- Every script starts with this: it reads the record of KEYS[1] and the server's clock, in µs.
-- A missing record reads as a free one with fence 0; a foreign or newer one ends the script before any write.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local format, fence, ends, token, spent = unpack(
  redis.call('HMGET', KEYS[1], 'format', 'fence', 'until', 'token', 'spent'))
if format then
  if format ~= '1' and string.sub(format, 1, 2) ~= '1.' then
    return redis.error_reply('LEADERFORMAT the record has format ' .. format .. ', this client knows format 1')
  end
  -- 2^53 is where a Lua number stops being exact. A comparison with NaN is false.
  fence, ends = tonumber(fence), tonumber(ends)
  if not (fence and ends and token and spent
      and fence >= 1 and fence < 9007199254740991 and ends >= 0 and ends < 9007199254740991) then
    return redis.error_reply('LEADERFORMAT the record is damaged')
  end
elseif redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('LEADERFORMAT the key holds a foreign hash')
else
  fence, ends, token, spent = 0, 0, '', ''
end
local live = ends > now

-- How long a record outlives its lease, in ms, so that the fence and the spent token are remembered.
local retention = 604800000

-- Lua's own conversion of a number to a string keeps 14 digits, a µs value has 16.
local function digits(number)
  return string.format('%.0f', number)
end

-- read returns the record of a key, after an error if there is something else. A missing record reads as a free one
-- with fence 0 and without a format.
local function read(key)
  local format, fence, ends, token, spent = unpack(
    redis.call('HMGET', key, 'format', 'fence', 'until', 'token', 'spent'))
  if format ~= '1' then
    local err = foreign(format, key)
    if err or not format then
      return err, false, 0, 0, '', ''
    end
  end
  -- 2^53 is where a Lua number stops being exact. A comparison with NaN is false.
  fence, ends = tonumber(fence), tonumber(ends)
  if not (fence and ends and token and spent
      and fence >= 1 and fence < 9007199254740991 and ends >= 0 and ends < 9007199254740991) then
    return redis.error_reply('LEADERFORMAT the record is damaged')
  end
  return nil, format, fence, ends, token, spent
end

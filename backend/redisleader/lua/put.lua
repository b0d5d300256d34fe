-- ARGV: field, version to replace, new version, ttl in µs or 0, value. Replies with 1, or with 0 if another version is
-- stored.
local version, exists = parse(redis.call('HGET', KEYS[1], ARGV[1]))
if not version then
  return redis.error_reply('LEADERFORMAT the record is damaged')
end
if version == ARGV[3] then
  return 1 -- The client has sent this again.
end
if (exists and version or '') ~= ARGV[2] then
  return 0
end
local ttl, ends = tonumber(ARGV[4]), '0'
local rest = redis.call('PTTL', KEYS[1]) -- -1 if the set stays, -2 if there is none
if ttl > 0 then
  ends = digits(now + ttl)
end
redis.call('HSET', KEYS[1], 'format', format or '1', ARGV[1], ARGV[3] .. ' ' .. ends .. ' ' .. ARGV[5])
if ttl == 0 then
  redis.call('PERSIST', KEYS[1])
elseif rest ~= -1 then
  redis.call('PEXPIRE', KEYS[1], digits(math.max(rest, ttl / 1000 + retention)))
end
return 1

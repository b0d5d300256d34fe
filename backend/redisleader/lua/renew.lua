-- ARGV: token, ttl in µs. Replies with 1, or with 0 if the lease is over.
if not live or token ~= ARGV[1] then
  return 0
end
local expiry = now + ARGV[2]
if expiry > ends then
  redis.call('HSET', KEYS[1], 'until', digits(expiry))
  redis.call('PEXPIRE', KEYS[1], digits(ARGV[2] / 1000 + retention))
end
return 1

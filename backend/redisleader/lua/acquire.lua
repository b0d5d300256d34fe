-- ARGV: token, ttl in µs, owner, metadata. Replies with the fence, with 0 for a spent token, or with the holder.
if spent == ARGV[1] then
  return 0
end
local expiry = now + ARGV[2]
if not live then
  fence = math.max(fence + 1, now)
  redis.call('HSET', KEYS[1], 'format', format or '1', 'fence', digits(fence), 'since', digits(now),
    'until', digits(expiry), 'token', ARGV[1], 'spent', spent, 'owner', ARGV[3], 'metadata', ARGV[4])
  redis.call('PEXPIRE', KEYS[1], digits(ARGV[2] / 1000 + retention))
  return fence
end
if token == ARGV[1] then
  if expiry > ends then
    redis.call('HSET', KEYS[1], 'until', digits(expiry))
    redis.call('PEXPIRE', KEYS[1], digits(ARGV[2] / 1000 + retention))
  end
  return fence
end

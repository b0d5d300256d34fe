-- grant gives a free record to the attempt in ARGV: token, ttl in µs, owner, metadata. It returns the fence.
local function grant(key, format, last, spent)
  local fence = math.max(last + 1, now)
  redis.call('HSET', key, 'format', format or '1', 'fence', digits(fence), 'since', digits(now),
    'until', digits(now + ARGV[2]), 'token', ARGV[1], 'spent', spent, 'owner', ARGV[3], 'metadata', ARGV[4])
  redis.call('PEXPIRE', key, digits(ARGV[2] / 1000 + retention))
  return fence
end

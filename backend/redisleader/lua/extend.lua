-- extend moves the end of a lease to the ttl in ARGV[2], in µs, from now, but not to an earlier one.
local function extend(key, ends)
  if now + ARGV[2] > ends then
    redis.call('HSET', key, 'until', digits(now + ARGV[2]))
    redis.call('PEXPIRE', key, digits(ARGV[2] / 1000 + retention))
  end
end

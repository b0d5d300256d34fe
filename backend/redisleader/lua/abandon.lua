-- KEYS as in acquire.lua. ARGV: token, publishing command. Replies with 1 if the token held the key, else with 0.
if live and token ~= ARGV[1] then
  return 0
end
-- The token is marked as spent even where there was no record, so that an attempt that is still on its way is refused.
redis.call('HSET', KEYS[1], 'format', format or '1', 'fence', digits(format and fence or now),
  'until', '0', 'token', '', 'spent', ARGV[1])
redis.call('PEXPIRE', KEYS[1], retention)
if KEYS[2] then
  redis.call('DEL', KEYS[2])
end
if not live then
  return 0
end
redis.pcall(ARGV[2], KEYS[1], digits(fence))
return 1

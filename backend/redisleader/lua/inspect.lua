-- ARGV: 1 to tell of a lease that has expired as well. Replies with the holder, or with 0 if the key is free.
if live or ARGV[1] == '1' and token ~= '' then
  return holder(KEYS[1], fence, ends, token)
end
return 0

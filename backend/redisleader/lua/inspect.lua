-- Replies with the holder, or with 0 if the key is free.
if not live then
  return 0
end

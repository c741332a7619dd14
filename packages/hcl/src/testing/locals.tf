locals {
  objects = [{ name = "a", tags = ["x", "y"] }, { name = "b", tags = ["z"] }]
  one     = { name = "only" }
  nothing = null
  nested  = [[1, 2], [3]]
  deep    = { a = { b = { c = "found" } } }
  heredoc = <<EOT
first \n "quoted" $${x}
  second ${1 + 1}
EOT
  flushed = <<-EOT
    one
      two ${"x"}
    three
  EOT
  looped = <<-EOT
    start
    %{ for x in ["a", "b"] ~}
    item ${x}
    %{ endfor ~}
    end
  EOT
  trimmed = <<-EOT
    a ${~ "b" ~}
    c
    %{ if true ~}
      yes
    %{ else ~}
      no
    %{ endif ~}
  EOT
  literal = <<EOT
EOT
  blank = <<-EOT
    a

      b
    ${"c"}
  EOT
  tabs = <<-EOT
	a
	  b
  EOT
  lead = <<-EOT
      x
      ${~ "y" ~}
      z
  EOT
  spaces = <<-EOT
      a
  
      b
  EOT
  first = <<-EOT
    ${"x"} y
      z
  EOT
  empties = <<-EOT
    a${""}
   
     b

  EOT
  plain = <<EOT
  a ${~ "b" ~}
  c
EOT
}

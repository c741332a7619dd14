terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

data "coder_workspace" "me" {}

locals {
  running = data.coder_workspace.me.transition == "start"
  names   = local.running ? toset(["a", "b.c"]) : toset(["b.c"])
}

resource "terraform_data" "each" {
  for_each = local.names
  input    = each.key
}

# all of its instances remain, although it depends on the transition
resource "terraform_data" "same" {
  count = local.running ? 1 : 1
}

output "first" {
  value = one([for key, data in terraform_data.each : key if key == "a"])
}

output "ids" {
  value = try(terraform_data.each["a"].input, "none")
}

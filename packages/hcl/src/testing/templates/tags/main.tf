data "coder_parameter" "region" {
  name    = "region"
  default = "eu"
}

data "coder_workspace_owner" "me" {}

variable "empty" {
  default = null
}

module "zone" {
  for_each = toset(["a", "b"])
  source   = "./zone"
  region   = data.coder_parameter.region.value
}

data "coder_workspace_tags" "none" {
  count = data.coder_parameter.region.value == "us" ? 1 : 0
  tags = {
    continent = "america"
  }
}

data "coder_workspace_tags" "each" {
  for_each = toset(["x", "y"])
  tags = {
    "each-${each.key}" = each.value
  }
}

data "coder_workspace_tags" "main" {
  tags = {
    empty  = var.empty
    owner  = data.coder_workspace_owner.me.name
    number = 1.50
    truth  = true
    tried  = try(data.external.nothing.result, "fallback")
  }
}

data "coder_workspace_tags" "merged" {
  tags = merge({ first = "1" }, { "second" = module.zone["a"].zone })
}

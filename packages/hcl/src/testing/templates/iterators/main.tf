locals {
  images   = jsondecode(file("${path.module}/images.json"))
  greeting = "Hello ${data.coder_workspace_owner.me.name}!"
}

data "coder_workspace_owner" "me" {}

data "coder_parameter" "image" {
  name        = "image"
  description = local.greeting
  default     = local.images[0].id
  icon        = "/icon/${local.images[0].id}.svg"
  dynamic "option" {
    for_each = [for image in local.images : image if !image.admin || contains(data.coder_workspace_owner.me.groups, "admin")]
    iterator = image
    content {
      name        = "${image.key}: ${image.value.id}"
      value       = image.value.id
      description = format("%s (%d)", upper(image.value.id), image.key)
    }
  }
}

data "coder_parameter" "role" {
  name    = "role"
  default = try(data.coder_workspace_owner.me.rbac_roles[0].name, "none")
}

data "coder_parameter" "each" {
  for_each = { for image in local.images : image.id => image }
  name     = "use_${each.key}"
  type     = "bool"
  default  = each.value.admin
  order    = 5
}

data "coder_parameter" "picked" {
  name    = "picked"
  default = join(",", [for id, parameter in data.coder_parameter.each : id if tobool(parameter.value)])
  order   = 6
}
